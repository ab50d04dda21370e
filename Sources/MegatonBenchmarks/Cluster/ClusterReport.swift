import Foundation
import MegatonCommandLine

/// Results of `megaton-bench cluster`.
struct ClusterReport: Encodable, Sendable {
    /// Load and throughput, measured before the start latencies are known.
    struct Measured: Sendable {
        var idle: RedisUsage
        var admittedPerSecond: Double?
        var backlog: RedisUsage
        var steadyRate: Int
        var steady: RedisUsage
    }

    var simulatedWorkers: Int
    var shards: Int
    /// Maximum number of concurrent jobs per worker.
    var concurrency: Int
    /// Number of hosts from which jobs simulated a fetch; 0 for none.
    var hosts: Int
    var renderMilliseconds: Double
    /// Number of sources of each job; jobs are counted by their sources.
    var pack: Int
    /// Load without jobs.
    var idle: RedisUsage
    /// Rate of the coordinator while no worker claims; nil if one observation saw all of the admission.
    var admittedPerSecond: Double?
    var backlog: RedisUsage
    /// Jobs per second.
    var steadyRate: Int
    var steady: RedisUsage
    /// Latency from push to start in the steady part.
    var pushToStart: Percentiles
    /// Jobs per second that would use one whole processor for Redis, computed from the cost of the backlog.
    var jobsPerSecondOfOneRedis: Double
    /// Number of workers that this rate would keep busy.
    var workersOfOneRedis: Double
    /// Jobs per second at which the busiest of all Redis would use one whole processor.
    var jobsPerSecondOfAllRedis: Double
    /// Number of workers that this rate would keep busy.
    var workersOfAllRedis: Double

    init(_ benchmark: ClusterBenchmark, shards: Int, _ measured: Measured, _ latencies: LatencyHistogram) {
        self.shards = shards
        simulatedWorkers = benchmark.fleet.workers
        concurrency = benchmark.fleet.concurrency
        hosts = benchmark.hosts
        renderMilliseconds = benchmark.renderMilliseconds
        pack = benchmark.pack
        idle = measured.idle
        admittedPerSecond = measured.admittedPerSecond
        backlog = measured.backlog
        steadyRate = measured.steadyRate
        steady = measured.steady
        pushToStart = Percentiles(latencies)
        jobsPerSecondOfOneRedis = Double(backlog.jobs) / max(1e-6, backlog.redisCPUSeconds)
        let workersPerRate = renderMilliseconds / 1000 / Double(concurrency)
        workersOfOneRedis = jobsPerSecondOfOneRedis * workersPerRate
        jobsPerSecondOfAllRedis = backlog.jobsPerSecond / max(1e-6, backlog.highestLoad)
        workersOfAllRedis = jobsPerSecondOfAllRedis * workersPerRate
    }

    var text: String {
        func number(_ value: Double, _ digits: Int = 0) -> String { String(format: "%.\(digits)f", value) }
        let admitted = admittedPerSecond.map { "\(number($0)) jobs a second" } ?? "too few to measure"
        let jobs =
            "\(number(backlog.cpuMicrosecondsPerJob ?? 0)) µs, \(number(backlog.commandsPerJob ?? 0, 1)) commands"
        let start = [pushToStart.p50Milliseconds, pushToStart.p90Milliseconds, pushToStart.p99Milliseconds]
        let places = Counted.jobs(concurrency)
        let packs = pack > 1 ? "; each pack counts as \(pack) jobs" : ""
        let work = number(renderMilliseconds, renderMilliseconds < 0.1 ? 3 : 1)
        let divided = shards > 1 ? ", \(shards) shards" : ""
        var lines = [
            "workers     \(simulatedWorkers) with \(places) each\(divided), \(work) ms a job\(packs)",
            "idle        \(idle.loadText), \(number(idle.commandsPerSecond)) commands a second",
            "admission   \(admitted)",
            "backlog     \(number(backlog.jobsPerSecond)) jobs a second, \(backlog.loadText)",
            "a job       \(jobs), \(number(backlog.scriptsPerJob ?? 0, 2)) of them scripts",
            "steady      \(number(steady.jobsPerSecond)) of \(steadyRate) jobs a second, \(steady.loadText)",
            "latency     \(start.map { number($0, 2) }.joined(separator: ", ")) ms (p50, p90, p99) from push to start",
            "one Redis   \(number(jobsPerSecondOfOneRedis)) jobs a second, \(number(workersOfOneRedis)) such workers",
        ]
        if backlog.servers.count > 1 {
            lines.append(
                "all Redis   \(number(jobsPerSecondOfAllRedis)) jobs a second, \(number(workersOfAllRedis)) such "
                    + "workers; the busiest then uses a whole processor"
            )
        }
        return (lines + RedisUsage.lines([("idle", idle), ("backlog", backlog), ("steady", steady)]))
            .joined(separator: "\n")
    }
}
