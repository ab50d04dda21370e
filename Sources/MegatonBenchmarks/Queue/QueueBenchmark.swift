import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import MegatonRedis
import NIOPosix

/// Measures the queue with jobs that do nothing, processed by worker processes.
struct QueueBenchmark: Sendable {
    let address: RedisConfiguration
    let jobs: Int
    let workers: Int
    let bytes: Int
    let rate: Int?
    let seconds: Int

    func run() async throws -> QueueReport {
        let redis = RedisClient(
            address,
            role: "bench",
            group: MultiThreadedEventLoopGroup.singleton,
            logger: LogOptions.logger("megaton.bench", level: .error)
        )
        defer { redis.close() }
        let pusher = JobPusher(redis: redis, keys: QueueKeys(), bytes: bytes)
        let cluster = BenchmarkCluster(address: address, workers: Array(repeating: ["queue-worker"], count: workers))
        let empty = try await RedisInfo.read(redis).usedMemory
        try await pusher.push(jobs, isTimed: false)
        let perJob = Double(try await RedisInfo.read(redis).usedMemory - empty) / Double(jobs)
        let start = ContinuousClock.now
        let (elapsed, _) = try await cluster.run {
            if try await !pusher.wait(until: jobs) { throw JobPusher.unfinished }
            return start.duration(to: .now)
        }
        let speed = Double(jobs) / elapsed.inSeconds
        let steady = rate ?? max(1, Int(speed / 4))
        let (_, latencies) = try await cluster.run { try await pusher.pushSteadily(steady, seconds: seconds) }
        return QueueReport(
            jobs: jobs,
            workers: workers,
            bytesPerWaitingJob: perJob,
            jobsPerSecond: speed,
            steadyRate: steady,
            p50Milliseconds: latencies.percentile(0.5) ?? 0,
            p99Milliseconds: latencies.percentile(0.99) ?? 0
        )
    }
}

/// Results of `megaton-bench queue`.
struct QueueReport: Encodable, Sendable {
    var jobs: Int
    var workers: Int
    /// Bytes of Redis' memory per job in the intake.
    var bytesPerWaitingJob: Double
    var jobsPerSecond: Double
    /// Jobs per second in the steady part.
    var steadyRate: Int
    /// Latency from push to start in the steady part.
    var p50Milliseconds: Double
    var p99Milliseconds: Double

    var text: String {
        func number(_ value: Double, _ digits: Int) -> String { String(format: "%.\(digits)f", value) }
        return """
            backlog     \(jobs) jobs, \(number(bytesPerWaitingJob, 0)) bytes of Redis each
            throughput  \(number(jobsPerSecond, 0)) jobs a second with \(workers) worker processes
            latency     p50 \(number(p50Milliseconds, 2)) ms, p99 \(number(p99Milliseconds, 2)) ms from push to start, \
            at \(steadyRate) jobs a second
            """
    }
}
