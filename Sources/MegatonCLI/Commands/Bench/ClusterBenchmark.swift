import Foundation
import Logging
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import NIOPosix

/// Has workers that only pretend to work do jobs of a real queue, and measures what that costs Redis.
struct ClusterBenchmark: Sendable {
    let address: RedisConfiguration
    let workers: Int
    /// Jobs that each worker has in hand at a time.
    let concurrency: Int
    /// From which the jobs pretend to fetch; 0 is none.
    let hosts: Int
    let renderMilliseconds: Double
    /// Of the backlog.
    let jobs: Int
    /// For the backlog at the most, and of the steady part.
    let seconds: Int
    let rate: Int?

    /// What a process holds: each worker has a connection of its own.
    private static let workersOfAProcess = 250
    private static let jobBytes = 200
    private static let idleTime: Duration = .seconds(2)
    /// The fleet has signed on by then, or what was admitted has ended.
    private static let patience: Duration = .seconds(120)
    /// No more comes where nothing has come for so long.
    private static let admissionPause: Duration = .seconds(2)
    private static let admissionTime: Duration = .seconds(20)

    func run() async throws -> ClusterReport {
        let processes = (workers + Self.workersOfAProcess - 1) / Self.workersOfAProcess
        let arguments = (0..<processes).map { number in
            let share = workers * (number + 1) / processes - workers * number / processes
            return [
                "cluster-workers", "--workers", String(share), "--concurrency", String(concurrency),
                "--hosts", String(hosts), "--render-ms", String(renderMilliseconds),
            ]
        }
        let cluster = BenchCluster(address: address, workers: arguments)
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
        let pusher = JobPusher(redis: redis, keys: queue.keys, bytes: Self.jobBytes)
        try await wait(orElse: "the workers did not all sign on.") { try await queue.workerCount() >= workers }
        let idle = try await spending(redis) { try await Task.sleep(for: Self.idleTime) }
        let admitted = try await admission(queue, pusher)
        let done = try await pusher.done()
        let backlog = try await spending(redis, countedBy: pusher) {
            try await queue.set(.paused, false)
            _ = try await pusher.wait(until: done + jobs, atMost: .seconds(seconds))
        }
        // What was not done in time goes, but for what the workers have been given.
        try await redis.send(["UNLINK", .string(queue.keys.jobs)])
        try await wait(orElse: "the rest of the backlog did not end.") { try await queue.alive() == 0 }
        let steadyRate = rate ?? max(1, Int(backlog.jobsPerSecond / 2))
        let steady = try await spending(redis, countedBy: pusher) {
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

    /// Pushes the backlog, and sees how fast the coordinator takes it in while nobody claims: as much as it has ready
    /// for such a fleet.
    private func admission(_ queue: JobQueue, _ pusher: JobPusher) async throws -> Double? {
        try await queue.set(.paused, true)
        try await queue.set(.drain, true)
        try await pusher.push(jobs, isTimed: false)
        try await queue.set(.drain, false)
        var rate = AdmissionRate(of: jobs)
        let deadline = ContinuousClock.now + Self.admissionTime
        while !rate.isOver && ContinuousClock.now < min(deadline, (rate.changed ?? deadline) + Self.admissionPause) {
            rate.observe(length: try await pusher.redis.send(["LLEN", .string(queue.keys.jobs)]).int ?? 0)
            try await Task.sleep(for: .milliseconds(1))
        }
        return rate.perSecond
    }

    /// What Redis spends while the body runs.
    private func spending(
        _ redis: RedisClient,
        countedBy pusher: JobPusher? = nil,
        _ body: () async throws -> Void
    ) async throws -> RedisSpending {
        let (before, done) = (try await RedisInfo.read(redis), try await pusher?.done())
        let (start, processors) = (ContinuousClock.now, ProcessorTimes.now())
        try await body()
        let time = start.duration(to: .now)
        let load = processors.flatMap { earlier in ProcessorTimes.now()?.load(since: earlier) }
        let jobs = (try await pusher?.done() ?? 0) - (done ?? 0)
        let after = try await RedisInfo.read(redis)
        return RedisSpending(from: before, to: after, jobs: jobs, in: time, machineLoad: load)
    }

    private func wait(orElse complaint: String, until isTrue: () async throws -> Bool) async throws {
        let deadline = ContinuousClock.now + Self.patience
        while try await !isTrue() {
            if ContinuousClock.now > deadline { throw Failure.broken(complaint) }
            try await Task.sleep(for: .milliseconds(20))
        }
    }
}
