import MegatonPipeline
import Synchronization

/// Histograms by name, updated by many threads.
final class LatencyTable: Sendable {
    private let histograms = Mutex<[String: LatencyHistogram]>([:])

    /// Runs the body and records its duration, unless it throws.
    func measure<Value, Problem: Error>(
        _ name: String,
        _ body: () throws(Problem) -> Value
    ) throws(Problem) -> Value {
        let start = ContinuousClock.now
        let value = try body()
        let microseconds = Int(start.duration(to: .now).inSeconds * 1e6)
        histograms.withLock { $0[name, default: LatencyHistogram()].add(microseconds) }
        return value
    }

    subscript(name: String) -> LatencyHistogram { histograms.withLock { $0[name] ?? LatencyHistogram() } }
}

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

/// Shared counter: returns 0, 1, 2 … to concurrent callers.
final class SharedCounter: Sendable {
    private let number = Atomic(0)

    func next() -> Int { number.add(1, ordering: .relaxed).oldValue }
}

#if MEGATON_SANITIZE
    @_exported public import MegatonCore

    // As `Synchronization.Mutex`, for sanitizers; exported so that all files of this module see its members.
    typealias Mutex = MegatonCore.Mutex
#endif
