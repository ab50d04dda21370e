import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import MegatonRedis

/// Runs simulated workers on a real queue, and measures the load on Redis.
struct ClusterBenchmark: Sendable {
    let target: BenchmarkQueue
    let fleet: BenchmarkFleet
    /// Number of hosts from which jobs simulate a fetch; 0 for none.
    let hosts: Int
    let renderMilliseconds: Double
    /// Number of jobs in the backlog.
    let jobs: Int
    /// Maximum duration of the backlog, and duration of the steady part, seconds.
    let seconds: Int
    let rate: Int?
    /// Number of sources of each job.
    let pack: Int

    private static let jobBytes = 200
    /// Duration of the part without jobs, seconds: as long as the others, so that it has each regular command of a
    /// worker several times.
    private static let idleSeconds = 2...10
    /// Workers of a larger fleet look less often, and learn its size with their next renewal; see `settlingTime`.
    private static let smallFleet = 100
    /// Longer than one renewal, and than a sleep that began before it.
    private static let settlingTime: Duration = .seconds(8)
    /// Time limit for the fleet to register, and for admitted jobs to end.
    private static let timeout: Duration = .seconds(120)
    /// Pause without admissions after which admission is over.
    private static let admissionPause: Duration = .seconds(2)
    private static let admissionTime: Duration = .seconds(20)

    func run() async throws -> ClusterReport {
        try await target.withQueue { queue in
            let shards = queue.shards.count
            // The connections for wake tokens; the others are shared.
            try fleet.requireConnections(fleet.workers * shards, to: try await ServerInfos.read(queue))
            let command = ["cluster-workers", "--hosts", String(hosts), "--render-ms", String(renderMilliseconds)]
            let cluster = BenchmarkCluster<LatencyHistogram>(
                queue: target,
                workers: fleet.arguments(command, filesPerWorker: shards)
            )
            let began = try await queue.now()
            let (measured, latencies) = try await cluster.run { try await measure(queue, since: began) }
            return ClusterReport(self, shards: shards, measured, LatencyHistogram(latencies))
        }
    }

    private func measure(_ queue: ShardedQueue, since began: Int) async throws -> ClusterReport.Measured {
        let pusher = JobPusher(queue: queue, bytes: Self.jobBytes, pack: pack)
        guard
            try await BenchmarkQueue.waitForWorkers(fleet.workers, of: queue, since: began, atMost: Self.timeout)
        else { throw CLIError.broken("not all workers registered in time.") }
        if fleet.workers > Self.smallFleet { try await Task.sleep(for: Self.settlingTime) }
        let idleTime = Duration.seconds(min(max(seconds, Self.idleSeconds.lowerBound), Self.idleSeconds.upperBound))
        let idling = try await RedisMeasurement.begin(queue)
        try await Task.sleep(for: idleTime)
        let idle = try await idling.end()
        let admitted = try await admission(queue, pusher)
        let done = try await pusher.done()
        let working = try await RedisMeasurement.begin(queue)
        try await queue.set(.paused, to: false)
        _ = try await pusher.wait(until: done + jobs, atMost: .seconds(seconds))
        let backlog = try await working.end(jobs: try await pusher.done() - done)
        // The jobs that were not done in time, except for those already admitted.
        try await BenchmarkQueue.dropIntakes(of: queue)
        try await waitUntilEmpty(queue)
        let steadyRate = rate ?? max(1, Int(backlog.jobsPerSecond / 2))
        let pushing = try await RedisMeasurement.begin(queue)
        let pushed = try await pusher.pushSteadily(steadyRate, seconds: seconds)
        return ClusterReport.Measured(
            idle: idle,
            admittedPerSecond: admitted,
            backlog: backlog,
            steadyRate: steadyRate,
            steady: try await pushing.end(jobs: pushed)
        )
    }

    /// Pushes the backlog, and measures how fast the coordinators admit it while no worker claims, up to the number of
    /// ready jobs that they keep for such a fleet.
    private func admission(_ queue: ShardedQueue, _ pusher: JobPusher) async throws -> Double? {
        try await queue.set(.paused, to: true)
        try await queue.set(.drain, to: true)
        try await pusher.push(jobs, isTimed: false)
        let pushed = try await queue.intakeCount()
        try await queue.set(.drain, to: false)
        var rate = AdmissionRate(of: pushed)
        let deadline = ContinuousClock.now + Self.admissionTime
        while !rate.isOver && ContinuousClock.now < min(deadline, (rate.changed ?? deadline) + Self.admissionPause) {
            rate.observe(length: try await queue.intakeCount())
            try await Task.sleep(for: .milliseconds(1))
        }
        return rate.perSecond.map { $0 * Double(jobs) / Double(max(pushed, 1)) }
    }

    private func waitUntilEmpty(_ queue: ShardedQueue) async throws {
        let deadline = ContinuousClock.now + Self.timeout
        while try await queue.alive() > 0 {
            if ContinuousClock.now > deadline {
                throw CLIError.broken("the rest of the backlog did not end in time.")
            }
            try await Task.sleep(for: .milliseconds(20))
        }
    }
}

/// Rate at which an intake is emptied, from repeated observations of its length.
struct AdmissionRate {
    private let length: Int
    private var first: (taken: Int, at: ContinuousClock.Instant)?
    private var last: (taken: Int, at: ContinuousClock.Instant)?

    /// - Parameter length: length of the intake before any job is taken.
    init(of length: Int) { self.length = length }

    mutating func observe(length now: Int) {
        let taken = length - now
        guard taken > last?.taken ?? 0 else { return }
        last = (taken, ContinuousClock.now)
        if first == nil { first = last }
    }

    /// Whether the intake is empty.
    var isOver: Bool { last?.taken == length }

    /// Time of the last observed change.
    var changed: ContinuousClock.Instant? { last?.at }

    /// Jobs per second between the first and the last observed change; nil if these are the same.
    var perSecond: Double? {
        guard let first, let last, last.taken > first.taken else { return nil }
        return Double(last.taken - first.taken) / first.at.duration(to: last.at).inSeconds
    }
}
