extension ImageTask {
    /// Durations and counts of a task, by stage.
    public struct Metrics: Sendable, Hashable {
        /// Time from the start of the task to its end; nil until then.
        public var total: Duration?
        /// Time spent waiting for a slot and for the origin, or for a cache. Nil if nothing was loaded. The same holds
        /// for the next two.
        public var load: Duration?
        public var decode: Duration?
        public var process: Duration?
        /// Bytes received from the origin or a file.
        public var bytes = 0
        /// Number of downloads requested from an origin.
        public var originFetches = 0
        /// Encoded images that were not stored in a data cache because all of `refreshConcurrency` was in use.
        public var dropped = 0
        /// Whether another task did the work: its cost is then recorded there and not here.
        public var isCoalesced = false
        /// The parts of `load`, `decode` and `process` that were spent waiting for a slot or for memory.
        public var waits = QueueWaits()
        /// Timings of the last request to an origin, if the loader reports them (``TimedDataLoading``); nil if there
        /// was none.
        public var timings: LoadTimings?
        /// The kind of cache that had the image or its source, as in the response; nil if there was none.
        public var cacheType: ImageResponse.CacheType?
        /// The layer of the data cache that had it, as in the response.
        public var cacheLayer: String?
    }

    /// Complete when the task has finished.
    public var metrics: Metrics { recorder.metrics }
}
