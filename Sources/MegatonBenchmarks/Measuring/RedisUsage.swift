import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonRedis

/// Load on Redis in one part of a benchmark: the sums of all servers, and each of them.
struct RedisUsage: Encodable, Sendable {
    var seconds: Double
    /// Processor time of all threads of all servers.
    var redisCPUSeconds: Double
    /// Processor time as a fraction of one processor; above 1 if several servers use more than one.
    var redisLoad: Double
    /// Busy fraction of all processors of the machine, from any process; nil if unknown.
    var machineLoad: Double?
    /// Number of jobs that ended.
    var jobs: Int
    var jobsPerSecond: Double
    /// Including commands within scripts.
    var commandsPerSecond: Double
    var scriptsPerSecond: Double
    /// Nil if no job ended, like the two properties below.
    var cpuMicrosecondsPerJob: Double?
    var commandsPerJob: Double?
    var scriptsPerJob: Double?
    /// Each server, ordered by name; of a Redis Cluster each master.
    var servers: [Server]

    /// Load on one server.
    struct Server: Encodable, Sendable {
        /// The address, without a password.
        var name: String
        /// Processor time of all its threads.
        var cpuSeconds: Double
        /// Processor time as a fraction of one processor.
        var load: Double
        /// Including commands within scripts.
        var commandsPerSecond: Double
        var scriptsPerSecond: Double

        init(_ name: String, from before: RedisInfo, to after: RedisInfo, in seconds: Double) {
            self.name = name
            cpuSeconds = after.cpuSeconds - before.cpuSeconds
            load = cpuSeconds / seconds
            commandsPerSecond = Double(after.commands - before.commands) / seconds
            scriptsPerSecond = Double(after.scripts - before.scripts) / seconds
        }
    }

    init(from before: ServerInfos, to after: ServerInfos, jobs: Int, in time: Duration, machineLoad: Double?) {
        let seconds = time.inSeconds
        // A master that was added or lost meanwhile has no difference.
        servers = after.servers.keys.sorted().compactMap { name in
            guard let now = after.servers[name], let earlier = before.servers[name] else { return nil }
            return Server(name, from: earlier, to: now, in: seconds)
        }
        self.seconds = seconds
        redisCPUSeconds = servers.reduce(0) { $0 + $1.cpuSeconds }
        redisLoad = redisCPUSeconds / seconds
        self.machineLoad = machineLoad
        self.jobs = jobs
        jobsPerSecond = Double(jobs) / seconds
        commandsPerSecond = servers.reduce(0) { $0 + $1.commandsPerSecond }
        scriptsPerSecond = servers.reduce(0) { $0 + $1.scriptsPerSecond }
        guard jobs > 0 else { return }
        cpuMicrosecondsPerJob = redisCPUSeconds * 1e6 / Double(jobs)
        commandsPerJob = commandsPerSecond * seconds / Double(jobs)
        scriptsPerJob = scriptsPerSecond * seconds / Double(jobs)
    }

    /// The highest load of a server.
    var highestLoad: Double { servers.map(\.load).max() ?? 0 }
}

/// A measurement of the load on the servers of a queue that has begun.
struct RedisMeasurement: Sendable {
    private let queue: ShardedQueue
    private let before: ServerInfos
    private let start: ContinuousClock.Instant
    private let processors: ProcessorTimes?

    static func begin(_ queue: ShardedQueue) async throws(RedisError) -> RedisMeasurement {
        let before = try await ServerInfos.read(queue)
        return RedisMeasurement(queue: queue, before: before, start: .now, processors: .now())
    }

    /// - Parameter jobs: number of jobs that have ended since the beginning.
    func end(jobs: Int = 0) async throws(RedisError) -> RedisUsage {
        let time = start.duration(to: .now)
        let load = processors.flatMap { earlier in ProcessorTimes.now()?.load(since: earlier) }
        let after = try await ServerInfos.read(queue)
        return RedisUsage(from: before, to: after, jobs: jobs, in: time, machineLoad: load)
    }
}

// MARK: - Text

extension RedisUsage {
    /// Load of all servers and of the machine.
    var loadText: String {
        let machine = machineLoad.map { String(format: ", the machine %.0f %% busy", $0 * 100) } ?? ""
        return String(format: "Redis %.0f %% of a processor", redisLoad * 100) + machine
    }

    /// One line for each server, with its load in each part of a benchmark.
    static func lines(_ parts: [(name: String, usage: RedisUsage)]) -> [String] {
        let names = Set(parts.flatMap { $0.usage.servers.map(\.name) }).sorted()
        return names.map { name in
            let figures = parts.compactMap { part -> String? in
                guard let server = part.usage.servers.first(where: { $0.name == name }) else { return nil }
                let load = String(format: "%.2f s of CPU (%.0f %%)", server.cpuSeconds, server.load * 100)
                return "\(part.name) \(load), " + String(format: "%.0f commands a second", server.commandsPerSecond)
            }
            return "server      \(name): " + figures.joined(separator: "; ")
        }
    }
}

/// Values of INFO of each server of a queue.
struct ServerInfos: Sendable {
    /// By the name of the server.
    let servers: [String: RedisInfo]

    init(servers: [String: RedisInfo]) { self.servers = servers }

    /// Asks each server, and of a Redis Cluster each master.
    static func read(_ queue: ShardedQueue) async throws(RedisError) -> ServerInfos {
        var texts: [String: [String]] = [:]
        for server in queue.shards.servers {
            for section in RedisInfo.sections {
                for (node, reply) in try await server.sendToMasters(["INFO", .string(section)]) {
                    texts[node ?? server.configuration.description, default: []].append(reply.string ?? "")
                }
            }
        }
        return ServerInfos(servers: texts.mapValues { RedisInfo($0.joined(separator: "\n")) })
    }

    /// Used memory, bytes.
    var usedMemory: Int { servers.values.reduce(0) { $0 + $1.usedMemory } }
    var connections: Int { servers.values.reduce(0) { $0 + $1.connections } }
}

/// Values of Redis' INFO.
struct RedisInfo: Sendable {
    private let fields: [String: String]

    static let sections = ["cpu", "memory", "stats", "commandstats", "clients"]

    init(_ text: String) {
        var fields: [String: String] = [:]
        for line in text.split(whereSeparator: \.isNewline) {
            let pair = line.split(separator: ":", maxSplits: 1).map(String.init)
            if pair.count == 2 { fields[pair[0]] = pair[1] }
        }
        self.fields = fields
    }

    /// Used memory, bytes.
    var usedMemory: Int { fields["used_memory"].flatMap { Int($0) } ?? 0 }
    /// Processor time of all its threads since it started.
    var cpuSeconds: Double {
        ["used_cpu_user", "used_cpu_sys"].reduce(0) { $0 + (fields[$1].flatMap { Double($0) } ?? 0) }
    }
    /// Commands since it started, including those within scripts.
    var commands: Int { fields["total_commands_processed"].flatMap { Int($0) } ?? 0 }
    /// Scripts run since it started.
    var scripts: Int { calls["evalsha", default: 0] + calls["eval", default: 0] }
    var connections: Int { fields["connected_clients"].flatMap { Int($0) } ?? 0 }
    /// Maximum number of connections; nil if this version does not say it.
    var maximumConnections: Int? { fields["maxclients"].flatMap { Int($0) } }

    /// Calls of each command since it started, including those within scripts.
    var calls: [String: Int] {
        var calls: [String: Int] = [:]
        for (name, value) in fields where name.hasPrefix("cmdstat_") {
            let field = value.split(separator: ",").first { $0.hasPrefix("calls=") }
            calls[String(name.dropFirst("cmdstat_".count))] = field.flatMap { Int($0.dropFirst("calls=".count)) }
        }
        return calls
    }
}
