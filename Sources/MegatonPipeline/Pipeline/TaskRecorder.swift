import Synchronization

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
