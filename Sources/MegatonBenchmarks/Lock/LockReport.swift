import Foundation

/// Results of `megaton-bench lock`: milliseconds from just before the end of a flight is sent to Redis, over the
/// rounds.
struct LockReport: Encodable, Sendable {
    /// One value per round in each histogram.
    struct Histograms: Sendable {
        var first = LatencyHistogram()
        var median = LatencyHistogram()
        var last = LatencyHistogram()
        var served = LatencyHistogram()

        /// - Parameter start: microseconds of the same clock.
        mutating func add(_ wakes: LockRounds.Wakes, since start: Int) {
            let woken = wakes.woken.sorted()
            guard let soonest = woken.first, let latest = woken.last else { return }
            first.add(soonest - start)
            median.add(woken[woken.count / 2] - start)
            last.add(latest - start)
            if let end = wakes.served.max() { served.add(end - start) }
        }
    }

    var waiters: Int
    var processes: Int
    var rounds: Int
    /// Time until the first waiter continues.
    var first: Percentiles
    /// Time until half of the waiters continue.
    var median: Percentiles
    /// Time until the last waiter continues.
    var last: Percentiles
    /// Time until the last waiter has the entry.
    var served: Percentiles

    init(waiters: Int, processes: Int, rounds: Int, _ histograms: Histograms) {
        self.waiters = waiters
        self.processes = processes
        self.rounds = rounds
        first = Percentiles(histograms.first)
        median = Percentiles(histograms.median)
        last = Percentiles(histograms.last)
        served = Percentiles(histograms.served)
    }

    var text: String {
        let rows = [
            ("first woken   ", first), ("median woken  ", median), ("last woken    ", last), ("last served   ", served),
        ].map { $0 + $1.columns }
        let head = "\(waiters) waiters in \(processes) processes, \(rounds) rounds"
        return ([head, "              " + Percentiles.heads] + rows).joined(separator: "\n")
    }
}
