import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import MegatonRedis
import NIOPosix

/// Runs simulated workers on a real queue, and measures the load on Redis.
struct ClusterBenchmark: Sendable {
    let address: RedisConfiguration
    let workers: Int
    /// Maximum number of concurrent jobs per worker.
    let concurrency: Int
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

    /// Maximum number of workers in one process: each has a connection of its own.
    private static let workersPerProcess = 250
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
        let processes = (workers + Self.workersPerProcess - 1) / Self.workersPerProcess
        let arguments = (0..<processes).map { number in
            let share = workers * (number + 1) / processes - workers * number / processes
            return [
                "cluster-workers", "--workers", String(share), "--concurrency", String(concurrency),
                "--hosts", String(hosts), "--render-ms", String(renderMilliseconds),
            ]
        }
        let cluster = BenchmarkCluster(address: address, workers: arguments)
        let (measured, latencies) = try await cluster.run { try await measure() }
        return ClusterReport(self, measured, latencies)
    }

    private func measure() async throws -> ClusterReport.Measured {
        let redis = RedisClient(
            address,
            role: "bench",
            group: MultiThreadedEventLoopGroup.singleton,
            logger: LogOptions.logger("megaton.bench", level: .error)
        )
        defer { redis.close() }
        let queue = JobQueue(redis, keys: QueueKeys())
        let pusher = JobPusher(redis: redis, keys: queue.keys, bytes: Self.jobBytes, pack: pack)
        try await wait(orElse: "not all workers registered in time.") { try await queue.workerCount() >= workers }
        if workers > Self.smallFleet { try await Task.sleep(for: Self.settlingTime) }
        let idleTime = Duration.seconds(min(max(seconds, Self.idleSeconds.lowerBound), Self.idleSeconds.upperBound))
        let idle = try await usage(redis) { try await Task.sleep(for: idleTime) }
        let admitted = try await admission(queue, pusher)
        let done = try await pusher.done()
        let backlog = try await usage(redis, countedBy: pusher) {
            try await queue.set(.paused, to: false)
            _ = try await pusher.wait(until: done + jobs, atMost: .seconds(seconds))
        }
        // Removes the jobs that were not done in time, except for those already admitted.
        try await redis.send(["UNLINK", .string(queue.keys.jobs)])
        try await wait(orElse: "the rest of the backlog did not end in time.") { try await queue.alive() == 0 }
        let steadyRate = rate ?? max(1, Int(backlog.jobsPerSecond / 2))
        let steady = try await usage(redis, countedBy: pusher) {
            try await pusher.pushSteadily(steadyRate, seconds: seconds)
        }
        return ClusterReport.Measured(
            idle: idle,
            admittedPerSecond: admitted,
            backlog: backlog,
            steadyRate: steadyRate,
            steady: steady
        )
    }

    /// Pushes the backlog, and measures how fast the coordinator admits it while no worker claims, up to the number of
    /// ready jobs that it keeps for such a fleet.
    private func admission(_ queue: JobQueue, _ pusher: JobPusher) async throws -> Double? {
        try await queue.set(.paused, to: true)
        try await queue.set(.drain, to: true)
        try await pusher.push(jobs, isTimed: false)
        let pushed = try await pusher.redis.send(["LLEN", .string(queue.keys.jobs)]).int ?? 0
        try await queue.set(.drain, to: false)
        var rate = AdmissionRate(of: pushed)
        let deadline = ContinuousClock.now + Self.admissionTime
        while !rate.isOver && ContinuousClock.now < min(deadline, (rate.changed ?? deadline) + Self.admissionPause) {
            rate.observe(length: try await pusher.redis.send(["LLEN", .string(queue.keys.jobs)]).int ?? 0)
            try await Task.sleep(for: .milliseconds(1))
        }
        return rate.perSecond.map { $0 * Double(pack) }
    }

    /// Load on Redis while the body runs.
    private func usage(
        _ redis: RedisClient,
        countedBy pusher: JobPusher? = nil,
        _ body: () async throws -> Void
    ) async throws -> RedisUsage {
        let (before, done) = (try await RedisInfo.read(redis), try await pusher?.done())
        let (start, processors) = (ContinuousClock.now, ProcessorTimes.now())
        try await body()
        let time = start.duration(to: .now)
        let load = processors.flatMap { earlier in ProcessorTimes.now()?.load(since: earlier) }
        let jobs = (try await pusher?.done() ?? 0) - (done ?? 0)
        let after = try await RedisInfo.read(redis)
        return RedisUsage(from: before, to: after, jobs: jobs, in: time, machineLoad: load)
    }

    private func wait(orElse message: String, until isTrue: () async throws -> Bool) async throws {
        let deadline = ContinuousClock.now + Self.timeout
        while try await !isTrue() {
            if ContinuousClock.now > deadline { throw CLIError.broken(message) }
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
