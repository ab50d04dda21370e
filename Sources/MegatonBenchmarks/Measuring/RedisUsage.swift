import Foundation
import MegatonPipeline
import MegatonRedis

/// Load on Redis in one part of a benchmark.
struct RedisUsage: Encodable, Sendable {
    var seconds: Double
    /// Processor time of all its threads.
    var redisCPUSeconds: Double
    /// Processor time as a fraction of one processor.
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

    init(from before: RedisInfo, to after: RedisInfo, jobs: Int, in time: Duration, machineLoad: Double?) {
        seconds = time.inSeconds
        redisCPUSeconds = after.cpuSeconds - before.cpuSeconds
        redisLoad = redisCPUSeconds / seconds
        self.machineLoad = machineLoad
        self.jobs = jobs
        jobsPerSecond = Double(jobs) / seconds
        let (commands, scripts) = (Double(after.commands - before.commands), Double(after.scripts - before.scripts))
        commandsPerSecond = commands / seconds
        scriptsPerSecond = scripts / seconds
        guard jobs > 0 else { return }
        cpuMicrosecondsPerJob = redisCPUSeconds * 1e6 / Double(jobs)
        commandsPerJob = commands / Double(jobs)
        scriptsPerJob = scripts / Double(jobs)
    }
}

/// Values of Redis' INFO.
struct RedisInfo: Sendable {
    private let fields: [String: String]

    static func read(_ redis: RedisClient) async throws(RedisError) -> RedisInfo {
        var fields: [String: String] = [:]
        for section in ["cpu", "memory", "stats", "commandstats"] {
            let text = try await redis.send(["INFO", .string(section)]).string ?? ""
            for line in text.split(whereSeparator: \.isNewline) {
                let pair = line.split(separator: ":", maxSplits: 1).map(String.init)
                if pair.count == 2 { fields[pair[0]] = pair[1] }
            }
        }
        return RedisInfo(fields: fields)
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
    var scripts: Int { calls(of: "evalsha") + calls(of: "eval") }

    private func calls(of command: String) -> Int {
        let parts = fields["cmdstat_\(command)"]?.split(separator: ",") ?? []
        let calls = parts.first { $0.hasPrefix("calls=") }
        return calls.flatMap { Int($0.dropFirst("calls=".count)) } ?? 0
    }
}

/// Times of this machine's processors since it started, in ticks (proc(5), `/proc/stat`).
struct ProcessorTimes: Sendable {
    private let busy: Int
    private let all: Int

    /// Nil if there is no /proc.
    static func now() -> ProcessorTimes? {
        // user nice system idle iowait irq softirq steal; the guests' times are included in these.
        guard let text = try? String(contentsOfFile: "/proc/stat", encoding: .utf8),
            let line = text.split(separator: "\n").first(where: { $0.hasPrefix("cpu ") })
        else { return nil }
        let ticks = line.split(separator: " ").dropFirst().prefix(8).compactMap { Int($0) }
        guard ticks.count == 8 else { return nil }
        let all = ticks.reduce(0, +)
        return ProcessorTimes(busy: all - ticks[3] - ticks[4], all: all)
    }

    /// Used fraction of the time of all processors, 0 to 1.
    func load(since earlier: ProcessorTimes) -> Double {
        Double(busy - earlier.busy) / Double(max(1, all - earlier.all))
    }
}
