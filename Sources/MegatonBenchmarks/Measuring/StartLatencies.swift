import Synchronization

/// Latencies from push to start, measured by the workers of one process.
final class StartLatencies: Sendable {
    private let all = Mutex(LatencyHistogram())

    /// Adds jobs that have just started; their ids contain the times of their pushes.
    func add(_ ids: [String]) {
        let now = NoOpJob.now()
        all.withLock { histogram in
            for id in ids {
                if let pushed = NoOpJob.pushed(id) { histogram.add(now - pushed) }
            }
        }
    }

    var histogram: LatencyHistogram { all.withLock { $0 } }
}
