import Foundation

/// What `megaton bench lock` measured: milliseconds from just before Redis was told of a flight's end, over the rounds.
struct LockReport: Encodable, Sendable {
    /// One value for each round in each of them.
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
    /// Until the first waiter goes on.
    var first: Percentiles
    /// Until half of them do.
    var median: Percentiles
    /// Until the last one does.
    var last: Percentiles
    /// Until the last one has the entry.
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
