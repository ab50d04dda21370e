import Synchronization

/// How long jobs took from push to start, as the workers of one process see it.
final class StartLatencies: Sendable {
    private let all = Mutex(LatencyHistogram())

    /// Those of jobs that have begun now; the ids say when they were pushed.
    func add(_ ids: [String]) {
        let now = BenchJob.now()
        all.withLock { histogram in
            for id in ids {
                if let pushed = BenchJob.pushed(id) { histogram.add(now - pushed) }
            }
        }
    }

    var histogram: LatencyHistogram { all.withLock { $0 } }
}
