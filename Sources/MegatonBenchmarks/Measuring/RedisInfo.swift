import MegatonRedis

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
