import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonRedis

/// Runs real workers on a queue without jobs, and measures the load on Redis.
struct IdleBenchmark: Sendable {
    let target: BenchmarkQueue
    let fleet: BenchmarkFleet
    let seconds: Int

    /// Time limit for the fleet to register.
    private static let timeout: Duration = .seconds(180)
    /// Time after the last worker has registered in which all of them begin to wait.
    private static let settling: Duration = .seconds(10)
    /// Files of a worker beside its connections, such as those of curl; above what was seen.
    private static let filesOfWorker = 8

    func run() async throws -> IdleReport {
        try await target.withQueue { queue in
            let servers = target.address.servers.count
            let connections =
                IdleWorkers.connectionsOfShard * queue.shards.count + IdleWorkers.connectionsOfCache * servers
            let before = try await ServerInfos.read(queue)
            try fleet.requireConnections(fleet.workers * connections, to: before)
            let cluster = BenchmarkCluster<IdleWorkersCommand.Output>(
                queue: target,
                workers: fleet.arguments(["idle-workers"], filesPerWorker: connections + Self.filesOfWorker)
            )
            let began = try await queue.now()
            let (measured, outputs) = try await cluster.run { try await measure(queue, since: began) }
            return IdleReport(
                workers: fleet.workers,
                concurrency: fleet.concurrency,
                shards: queue.shards.count,
                processes: fleet.processes,
                threads: outputs.reduce(0) { $0 + $1.threads },
                connections: measured.after.connections - before.connections,
                commands: ServerInfos.rates(from: measured.before, to: measured.after, in: measured.usage.seconds),
                idle: measured.usage
            )
        }
    }

    private func measure(
        _ queue: ShardedQueue,
        since began: Int
    ) async throws -> (usage: RedisUsage, before: ServerInfos, after: ServerInfos) {
        guard
            try await BenchmarkQueue.waitForWorkers(fleet.workers, of: queue, since: began, atMost: Self.timeout)
        else { throw CLIError.broken("not all workers registered in time.") }
        try await Task.sleep(for: Self.settling)
        let before = try await ServerInfos.read(queue)
        let measurement = try await RedisMeasurement.begin(queue)
        try await Task.sleep(for: .seconds(seconds))
        let usage = try await measurement.end()
        // Otherwise fewer workers than named would have sent the commands.
        let living = try await BenchmarkQueue.livingWorkers(of: queue).min() ?? 0
        guard living >= fleet.workers else {
            throw CLIError.broken("only \(living) of \(fleet.workers) workers sent heartbeats during the measurement.")
        }
        return (usage, before, try await ServerInfos.read(queue))
    }
}

/// Results of `megaton-bench cluster --idle`.
struct IdleReport: Encodable, Sendable {
    var workers: Int
    /// Maximum number of concurrent jobs per worker.
    var concurrency: Int
    var shards: Int
    /// Number of processes in which the workers run.
    var processes: Int
    /// Number of threads of these processes.
    var threads: Int
    /// Number of connections of the workers and of the coordinator.
    var connections: Int
    /// Calls of each command per second, including those within scripts.
    var commands: [String: Double]
    /// Load of the idle fleet, with that of the coordinator.
    var idle: RedisUsage

    /// Number of commands that the text names.
    private static let namedCommands = 8

    var text: String {
        func number(_ value: Double, _ digits: Int = 0) -> String { String(format: "%.\(digits)f", value) }
        let most = commands.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(Self.namedCommands)
        let places = Counted.of(concurrency, "place")
        let lines = [
            "workers     \(workers) with \(places) each, \(Counted.of(shards, "shard")); all of them real",
            "processes   \(processes), with \(threads) threads and \(connections) connections to Redis",
            "idle        \(number(idle.commandsPerSecond)) commands a second, "
                + "\(number(idle.commandsPerSecond / Double(workers), 2)) of each worker; "
                + "\(number(idle.scriptsPerSecond)) scripts a second",
            "load        \(idle.loadText)",
            "commands    " + most.map { "\($0.key) \(number($0.value))" }.joined(separator: ", "),
        ]
        return (lines + RedisUsage.lines([("idle", idle)])).joined(separator: "\n")
    }
}

extension ServerInfos {
    /// Calls of each command per second on all servers, of those that were called.
    static func rates(from before: ServerInfos, to after: ServerInfos, in seconds: Double) -> [String: Double] {
        var rates: [String: Double] = [:]
        for (name, info) in after.servers {
            let earlier = before.servers[name]?.calls ?? [:]
            for (command, calls) in info.calls where calls > earlier[command, default: 0] {
                rates[command, default: 0] += Double(calls - earlier[command, default: 0]) / seconds
            }
        }
        return rates
    }
}
