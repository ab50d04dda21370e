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
