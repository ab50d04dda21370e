import Foundation
import MegatonCluster
import MegatonTestSupport

/// Measures the pace of a fleet again and again in one run: the time of a batch of a known size on healthy hosts, while
/// the jobs of dead hosts wait and no fault is injected.
///
/// Paces are compared within the run, so that they do not depend on the machine.
struct PaceMeter {
    /// A measurement.
    struct Pace {
        let name: String
        /// Seconds of work that were done in a second: the number of places, if none was ever free.
        let places: Double
    }

    let cluster: ChaosCluster
    let stage: Stage
    let watch: PaceWatch
    private(set) var paces: [Pace] = []
    private(set) var violations: [String] = []
    private(set) var figures: [String] = []
    /// Number of measurements, also of those that failed.
    private var count = 0

    /// Time in which all jobs that do not wait have ended after the faults, with no new batch. Leases of killed workers
    /// are free after 16 s, the jobs of four batches need less than half a minute of the smallest fleet, and so do
    /// suspects, which run one at a time. The rest is for a machine with two cores.
    private static let settling: Duration = .seconds(90)
    /// Time in which no attempt is running at some moment, as each takes less than ten seconds.
    private static let lastAttempts: Duration = .seconds(30)
    /// Seconds of work for each place.
    private static let secondsOfAPlace = 8.0
    /// Jobs of dead hosts: enough to open the circuit breakers, which ten failures do.
    private static let refused = 40
    private static let unanswered = 12
    /// Share of the first pace that each later one reaches. The last jobs of three seconds may begin late: that is a
    /// quarter of the time of the batch. The rest is for the noise of a machine whose two cores do all of the work.
    private static let leastShare = 0.6
    /// Share of the places' time that the batch gets, also in the first measurement. The start of the submitting
    /// process and the last jobs, during which most places are free, cost a third of it; the rest is for a busy
    /// machine.
    private static let leastUse = 0.4
    /// Ten times what the batch needs.
    private static let patience: Duration = .seconds(120)

    init(_ cluster: ChaosCluster, stage: Stage, watch: PaceWatch) {
        self.cluster = cluster
        self.stage = stage
        self.watch = watch
    }

    /// Measures the pace. The load must be paused.
    ///
    /// - Parameter name: the phase, for messages.
    mutating func measure(_ name: String) async throws {
        count += 1
        let number = count
        _ = try cluster.fleet.supervise()
        try await settle(name)
        let dead = try await cluster.hosts.dead()
        defer { dead.stop() }
        try await submitDead("pace-dead-\(number)", dead)
        try await measureHealthy("pace-\(number)", name)
        try await end("pace-dead-\(number)")
    }

    /// Waits for an empty queue, so that all measurements begin alike. Jobs may still wait for dead hosts or for an
    /// attempt after that: only others are a violation.
    private mutating func settle(_ name: String) async throws {
        let emptied = try await stage.wait(atMost: Self.settling, every: .milliseconds(250)) {
            let sample = try await watch.sample()
            return sample.isSettled && sample.waiting == 0
        }
        if emptied != nil { return }
        let settled = try await stage.wait(atMost: Self.lastAttempts, every: .milliseconds(250)) {
            try await watch.sample().isSettled
        }
        if settled != nil { return }
        let state = (try? await watch.sample())?.text ?? "unknown"
        violations.append(
            "rate: \(name): \(Stage.seconds(Self.settling + Self.lastAttempts)) after the last batch began, until "
                + "\(cluster.faults.seconds()) of the run, jobs were ready or running at each look: \(state)"
        )
    }

    /// Submits the jobs of dead hosts, and waits until their circuit breakers are open, or they have failed.
    private func submitDead(_ batch: String, _ dead: ChaosHosts.Dead) async throws {
        let urls =
            (0..<Self.refused).map { dead.refused("/\(batch)-\($0).png") }
            + (0..<Self.unanswered).map { dead.unanswered("/\(batch)-\($0).png") }
        let list = "\(stage.directory)/\(batch).jsonl"
        try JobList.write(urls.map { #"{"source":"\#($0)","attempts":2}"# }, to: list)
        let submit = try cluster.fleet.launch(command: ["submit", list, "--batch", batch, "--pack", "0", "--quiet"])
        guard await Fleet.ending(of: submit, within: .seconds(60)) == 0 else {
            throw Stage.NotReached(what: "a batch of dead hosts: \(submit.errors.suffix(300))")
        }
        // From the second attempts on, they wait for the probes. An attempt at a host that hangs takes six seconds. All
        // may have ended by then: the jobs of a host that was given up fail at once.
        try await stage.reach("only waiting jobs of dead hosts, or none", within: Self.settling) {
            try await watch.sample().isSettled
        }
    }

    private mutating func measureHealthy(_ batch: String, _ name: String) async throws {
        var (lines, work): ([String], Double) = ([], 0)
        // A third of the work for each host, the longest jobs first.
        for host in cluster.hosts.paced {
            let share = Self.secondsOfAPlace * Double(cluster.plan.places) / Double(cluster.hosts.paced.count)
            let count = Int((share / host.seconds).rounded())
            work += Double(count) * host.seconds
            lines += (0..<count).map { number in
                let url = host.server.url("/\(batch)-\(number).png").absoluteString
                return #"{"source":"\#(url)","renditions":[{"name":"w32","width":32}]}"#
            }
        }
        let list = "\(stage.directory)/\(batch).jsonl"
        try JobList.write(lines, to: list)
        let before = try await watch.sample()
        let submit = try cluster.fleet.launch(command: [
            "submit", list, "--batch", batch, "--wait", "--quiet", "--pack", "0", "--output",
            "\(cluster.fleet.outputs)/\(batch)",
        ])
        let code = await Fleet.ending(of: submit, within: Self.patience)
        let after = try await watch.sample()
        let place = "\(name), at \(cluster.faults.seconds()) of the run"
        guard code == 0, let seconds = try await seconds(of: batch) else {
            violations.append(
                "rate: \(place): a healthy batch of \(lines.count) jobs ended with "
                    + "\(code.map(String.init) ?? "nothing in \(Stage.seconds(Self.patience))"): \(after.text). "
                    + "\(submit.errors.suffix(300))"
            )
            return
        }
        let pace = Pace(name: name, places: work / seconds)
        figures.append(
            "pace \(name): \(Self.text(pace.places)) of \(cluster.plan.places) places in \(Self.text(seconds)) s, "
                + "while \(before.held) jobs were held, and \(after.held) at its end"
        )
        let first = paces.first?.places ?? pace.places
        if pace.places < Self.leastShare * first {
            violations.append(
                "rate: \(place): \(Self.text(pace.places)) places in \(Self.text(seconds)) s, less than "
                    + "\(Self.leastShare) of the \(Self.text(first)) before the faults: \(after.text)"
            )
        }
        if pace.places < Self.leastUse * Double(cluster.plan.places) {
            violations.append(
                "rate: \(place): a healthy batch beside dead hosts had \(Self.text(pace.places)) of "
                    + "\(cluster.plan.places) places for \(Self.text(seconds)) s, less than \(Self.leastUse) of them: "
                    + after.text
            )
        }
        paces.append(pace)
    }

    /// Waits for the batch of dead hosts, whose servers end with the measurement.
    private mutating func end(_ batch: String) async throws {
        let ended = try await stage.wait(atMost: Self.settling, every: .milliseconds(500)) {
            try await counters(of: batch).allSatisfy(\.isFinished)
        }
        let failed = try await counters(of: batch).reduce(0) { $0 + $1["failed"] }
        if ended == nil || failed != Self.refused + Self.unanswered {
            violations.append(
                "rate: batch \(batch) of dead hosts: \(failed) of \(Self.refused + Self.unanswered) jobs have failed "
                    + "\(Stage.seconds(Self.settling)) after the healthy batch"
            )
        }
    }

    private func counters(of batch: String) async throws -> [BatchCounters] {
        var counters: [BatchCounters] = []
        for view in cluster.views { counters.append(try await view.batch(batch)) }
        return counters.filter(\.isKnown)
    }

    /// Time of a batch by the clock of Redis; nil if it has not ended.
    private func seconds(of batch: String) async throws -> Double? {
        var (created, finished): ([Int], [Int]) = ([], [])
        for view in cluster.views {
            if let time = try await view.time("created", ofBatch: batch) { created.append(time) }
            if let time = try await view.time("finished", ofBatch: batch) { finished.append(time) }
        }
        guard let first = created.min(), let last = finished.max(), last > first else { return nil }
        return Double(last - first) / 1000
    }

    private static func text(_ number: Double) -> String { String(format: "%.1f", number) }
}
