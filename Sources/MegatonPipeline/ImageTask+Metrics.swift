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
        /// Whether the work was done on another task's account: the durations are its then, and not told here.
        public var isCoalesced = false
    }

    /// Complete when the task has finished.
    public var metrics: Metrics { recorder.metrics }
}
