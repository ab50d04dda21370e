import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// Measures the queue with jobs that do nothing, processed by worker processes.
struct QueueBenchmark: Sendable {
    let target: BenchmarkQueue
    let jobs: Int
    let workers: Int
    let bytes: Int
    let rate: Int?
    let seconds: Int

    func run() async throws -> QueueReport {
        try await target.withQueue { queue in try await measure(queue) }
    }

    private func measure(_ queue: ShardedQueue) async throws -> QueueReport {
        let pusher = JobPusher(queue: queue, bytes: bytes)
        let cluster = BenchmarkCluster<LatencyHistogram>(
            queue: target,
            workers: Array(repeating: ["queue-worker"], count: workers)
        )
        let empty = try await ServerInfos.read(queue).usedMemory
        let done = try await pusher.done()
        try await pusher.push(jobs, isTimed: false)
        let perJob = Double(try await ServerInfos.read(queue).usedMemory - empty) / Double(jobs)
        let measurement = try await RedisMeasurement.begin(queue)
        let (backlog, _) = try await cluster.run {
            if try await !pusher.wait(until: done + jobs) { throw JobPusher.unfinished }
            return try await measurement.end(jobs: jobs)
        }
        let steadyRate = rate ?? max(1, Int(backlog.jobsPerSecond / 4))
        let (steady, latencies) = try await cluster.run {
            let measurement = try await RedisMeasurement.begin(queue)
            let pushed = try await pusher.pushSteadily(steadyRate, seconds: seconds)
            return try await measurement.end(jobs: pushed)
        }
        let all = LatencyHistogram(latencies)
        return QueueReport(
            jobs: jobs,
            workers: workers,
            shards: queue.shards.count,
            bytesPerWaitingJob: perJob,
            jobsPerSecond: backlog.jobsPerSecond,
            steadyRate: steadyRate,
            p50Milliseconds: all.percentile(0.5) ?? 0,
            p99Milliseconds: all.percentile(0.99) ?? 0,
            backlog: backlog,
            steady: steady
        )
    }
}

/// Results of `megaton-bench queue`.
struct QueueReport: Encodable, Sendable {
    var jobs: Int
    var workers: Int
    var shards: Int
    /// Bytes of Redis' memory per job in the intake.
    var bytesPerWaitingJob: Double
    var jobsPerSecond: Double
    /// Jobs per second in the steady part.
    var steadyRate: Int
    /// Latency from push to start in the steady part.
    var p50Milliseconds: Double
    var p99Milliseconds: Double
    /// Load while the backlog is processed, and in the steady part.
    var backlog: RedisUsage
    var steady: RedisUsage

    var text: String {
        func number(_ value: Double, _ digits: Int) -> String { String(format: "%.\(digits)f", value) }
        let processes = Counted.of(workers, "worker process", "worker processes")
        let lines = [
            "backlog     \(jobs) jobs, \(number(bytesPerWaitingJob, 0)) bytes of Redis each",
            "throughput  \(number(jobsPerSecond, 0)) jobs a second with \(processes), \(Counted.of(shards, "shard"))",
            "latency     p50 \(number(p50Milliseconds, 2)) ms, p99 \(number(p99Milliseconds, 2)) ms from push to "
                + "start, at \(steadyRate) jobs a second",
        ]
        return (lines + RedisUsage.lines([("backlog", backlog), ("steady", steady)])).joined(separator: "\n")
    }
}
