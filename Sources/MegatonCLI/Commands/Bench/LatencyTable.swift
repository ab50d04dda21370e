import MegatonPipeline
import Synchronization

/// A histogram for each of several things, added to from many threads.
final class LatencyTable: Sendable {
    private let histograms = Mutex<[String: LatencyHistogram]>([:])

    /// Runs the body and adds how long it took, unless it fails.
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
