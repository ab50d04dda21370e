import Synchronization

extension ImageTask {
    /// Durations and counts of a task, by stage.
    public struct Metrics: Sendable, Hashable {
        /// Time from the start of the task to its end; nil until then.
        public var total: Duration?
        /// Time spent waiting for a slot and for the origin, or for a cache. Nil if nothing was loaded. The same holds
        /// for the next two.
        public var load: Duration?
        /// Duration of the decoding.
        public var decode: Duration?
        /// Duration of the processing.
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

/// Records the cost of an image task while it runs.
final class TaskRecorder: Sendable {
    /// Includes the whole cost of fetches that this task started and others share.
    let counts = PipelineMetrics()
    private let state = Mutex(ImageTask.Metrics())
    private let start = ContinuousClock.now

    var metrics: ImageTask.Metrics {
        var metrics = state.withLock { $0 }
        let counts = self.counts.counts
        metrics.originFetches = counts.originFetches
        metrics.bytes = counts.bytesIn
        metrics.dropped = counts.dropped
        metrics.timings = self.counts.timings
        metrics.waits = self.counts.waits
        return metrics
    }

    /// Adds the duration of the body to a stage, and records how much of it was spent in queues.
    func measure<Value>(
        _ stage: ImageError.Stage,
        _ body: () async throws(ImageError) -> Value
    ) async throws(ImageError) -> Value {
        let start = ContinuousClock.now
        defer { add(start.duration(to: .now), to: stage) }
        return try await counts.notingWaits(for: stage, body)
    }

    private func add(_ time: Duration, to stage: ImageError.Stage) {
        state.withLock { metrics in
            switch stage {
            case .load: metrics.load = (metrics.load ?? .zero) + time
            case .decode: metrics.decode = (metrics.decode ?? .zero) + time
            case .process: metrics.process = (metrics.process ?? .zero) + time
            case .encode, .store: break
            }
        }
    }

    /// - Parameter response: nil if the task failed.
    func end(with response: ImageResponse?, wasCoalesced: Bool) {
        state.withLock { metrics in
            metrics.isCoalesced = wasCoalesced
            metrics.cacheType = response?.cacheType
            metrics.cacheLayer = response?.cacheLayer
        }
        end()
    }

    /// Records the end of the task, whatever the outcome. The first call counts.
    func end() {
        state.withLock { metrics in
            if metrics.total == nil { metrics.total = start.duration(to: .now) }
        }
    }
}
