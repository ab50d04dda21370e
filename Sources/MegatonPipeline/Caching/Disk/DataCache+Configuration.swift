extension DataCache {
    /// Limits of a disk cache.
    public struct Configuration: Sendable {
        /// Maximum size on the disk in bytes, as allocated. Above it the least recently used entries are deleted.
        /// Defaults to 150 MiB, as in Nuke.
        public var sizeLimit = 150 * 1024 * 1024
        /// The fraction of `sizeLimit` that remains after a trim.
        public var trimRatio = 0.7
        /// The interval between scans of the folder, which find files of other processes and trim the cache.
        public var sweepInterval: Duration = .seconds(30 * 60)
        /// Whether this object trims the cache by itself. If several objects share a folder and only one should delete
        /// files, set it to false in all the others.
        public var isSweepEnabled = true
        /// Maximum size in bytes of entries that wait to be written; above it `storeData` waits.
        public var stagingLimit = 32 * 1024 * 1024
        /// How long `storeData` waits before it drops the entry. A hanging disk must not delay callers that already
        /// have their data.
        public var stagingWait: Duration = .seconds(10)
        /// Number of reading threads, and so of files read concurrently.
        public var readConcurrency = 4

        public init() {}
    }
}
