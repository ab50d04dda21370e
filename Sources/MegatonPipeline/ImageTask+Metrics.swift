extension ImageTask {
    /// What a task has cost, by stage.
    public struct Metrics: Sendable, Hashable {
        /// From its beginning to its end; nil until then.
        public var total: Duration?
        /// Waiting for a place and for the origin, or for a cache. Nil where nothing was loaded. So are the next two.
        public var load: Duration?
        public var decode: Duration?
        public var process: Duration?
        /// Bytes that came from the origin or a file.
        public var bytes = 0
        /// Whether an origin was asked.
        public var originFetches = 0
        /// Encoded images that a data cache would have kept, and that were left out as `refreshConcurrency` was used up.
        public var dropped = 0
        /// Whether the work was done on another task's account: what it has cost is told there, and not here.
        public var isCoalesced = false
        /// How much of `load`, `decode` and `process` was waiting for a turn, or for memory.
        public var waits = QueueWaits()
        /// Of the last request to an origin, by a loader that tells them (``TimedDataLoading``); nil where there was none.
        public var timings: LoadTimings?
        /// Which cache had the image, or what it was made of: as the response's, and nil where there is none.
        public var cacheType: ImageResponse.CacheType?
        /// Which layer of the data cache that was: as the response's.
        public var cacheLayer: String?
    }

    /// Complete when the task has finished.
    public var metrics: Metrics { recorder.metrics }
}
