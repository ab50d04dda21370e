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
            case .miss: "there is nothing for a key that nothing was stored for"
            case .readYourWrites: "what was stored is read when storeData has returned"
            case .overwrite: "a second storeData replaces the first, also a longer one"
            case .emptyData: "empty data is kept, and is not a miss"
            case .largeData: "a MiB is kept"
            case .slices: "of data that is part of other data just this part is kept"
            case .contains: "containsData says what cachedData would find"
            case .remove: "removeData removes that entry and no other, and nothing where there is none"
            case .removeAll: "removeAll removes every entry, and the cache is of use afterwards"
            case .batch: "cachedData(for: [String]) answers in the keys' order, nil for those missed, also for no keys"
            case .oddKeys: "any two keys that are not equal are told apart"
            case .longKeys: "keys of 10,000 characters are told apart by the last one"
            case .manyOwners: "many at a time read what they wrote themselves"
            case .manyWriters: "many at a time see whole data of their key, never torn or of another key"
            }
        }
    }
}
