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
    /// The cache that is checked.
    public let cache: any DataCaching

    /// Creates the checks of a cache.
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

extension DataCachingConformance {
    /// A rule of the contract, and the check that verifies it.
    public enum Check: String, Sendable, CaseIterable, CustomStringConvertible {
        case miss, readYourWrites, overwrite, emptyData, largeData, slices, contains, remove, removeAll, batch, oddKeys,
            longKeys, manyOwners, manyWriters

        public var description: String { rawValue }

        /// The rule that must hold.
        public var rule: String {
            switch self {
            case .miss: "a key for which nothing was stored is a miss"
            case .readYourWrites: "data is found as soon as storeData has returned"
            case .overwrite: "a second storeData replaces the first entry, even a longer one"
            case .emptyData: "empty data is stored, and is not a miss"
            case .largeData: "a MiB is stored"
            case .slices: "of data that is a slice of other data only the slice is stored"
            case .contains: "containsData returns whether cachedData would find the entry"
            case .remove: "removeData removes that entry and no other, and does nothing if there is none"
            case .removeAll: "removeAll removes every entry, and the cache is usable afterwards"
            case .batch:
                "cachedData(for: [String]) returns data in the order of the keys, nil for misses, nothing for no keys"
            case .oddKeys: "any two keys that are not equal have different entries"
            case .longKeys: "keys of 10,000 characters that differ in the last one have different entries"
            case .manyOwners: "many concurrent tasks read the data that they wrote themselves"
            case .manyWriters: "many concurrent tasks read whole data of their key, never torn or of another key"
            }
        }
    }
}
