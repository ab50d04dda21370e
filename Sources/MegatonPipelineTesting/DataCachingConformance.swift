public import MegatonPipeline

/// Checks a cache against the contract of `DataCaching`, rule by rule.
///
/// The cache may hold other entries, but no other code may change it meanwhile. The checks depend on no test library.
/// With Swift Testing:
///
/// ```swift
/// @Test(arguments: DataCachingConformance.Check.allCases)
/// func conforms(_ check: DataCachingConformance.Check) async throws {
///     try await DataCachingConformance(MyCache()).run(check)
/// }
/// ```
///
/// For a cache that keeps the no-op defaults of `removeData(for:)` and `removeAll()`, omit the checks `.remove` and
/// `.removeAll`.
public struct DataCachingConformance: Sendable {
    public let cache: any DataCaching

    public init(_ cache: any DataCaching) { self.cache = cache }

    /// - Throws: a failure that describes how the cache breaks the rule of the check.
    public func run(_ check: Check) async throws(ConformanceFailure) {
        let trial = CacheTrial(cache: cache, check: check)
        switch check {
        case .miss: try await trial.miss()
        case .readYourWrites: try await trial.readYourWrites()
        case .overwrite: try await trial.overwrite()
        case .emptyData: try await trial.emptyData()
        case .largeData: try await trial.largeData()
        case .slices: try await trial.slices()
        case .contains: try await trial.contains()
        case .remove: try await trial.remove()
        case .removeAll: try await trial.removeAll()
        case .batch: try await trial.batch()
        case .oddKeys: try await trial.oddKeys()
        case .longKeys: try await trial.longKeys()
        case .manyOwners: try await trial.manyOwners()
        case .manyWriters: try await trial.manyWriters()
        }
    }
}
