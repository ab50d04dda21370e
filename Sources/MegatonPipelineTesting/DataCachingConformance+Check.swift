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
