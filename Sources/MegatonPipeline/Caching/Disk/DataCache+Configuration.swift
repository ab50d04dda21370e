extension DataCache {
    /// Limits of a disk cache.
    public struct Configuration: Sendable {
        /// Bytes on the disk, as allocated; beyond that the entries that were not used for longest go. 150 MB by default, as
        /// in Nuke.
        public var sizeLimit = 150 * 1024 * 1024
        /// What part of `sizeLimit` is left when room has been made.
        public var trimRatio = 0.7
        /// How often the folder is looked through for what other processes have left there, and swept.
        public var sweepInterval: Duration = .seconds(30 * 60)
        /// Whether this object makes room by itself. To be switched off in all but one of many that share a folder, where
        /// only one is to decide.
        public var isSweepEnabled = true
        /// Bytes that may wait to be written; beyond that `storeData` waits.
        public var stagingLimit = 32 * 1024 * 1024
        /// How long `storeData` waits; then the entry is dropped. A disk that hangs must not hold up those who have their
        /// data already.
        public var stagingWait: Duration = .seconds(10)
        /// Files read at a time: threads.
        public var readConcurrency = 4

        public init() {}
    }
}
