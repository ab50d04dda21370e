internal import Foundation
internal import MegatonPipeline
internal import MegatonRedis

extension Doctor {
    /// Role of a Redis.
    enum Part: String {
        case control = "control Redis"
        case cache = "cache Redis"
    }

    private static let pings = 20
    /// Limit for the median of the pings, milliseconds.
    private static let slow: Double = 20
    /// Limit for the slowest ping, milliseconds: beyond it something blocks the server.
    private static let stuck: Double = 200

    /// Checks one server.
    ///
    /// - Returns: the findings, and the seconds by which its clock is ahead of this machine's, nil if it cannot be
    ///   reached.
    func server(_ part: Part, at redis: RedisClient) async -> (findings: [Finding], clock: Double?) {
        var findings: [Finding] = []
        do {
            findings.append(try await latency(of: part, at: redis))
            let nodes = try await Self.readable { () async throws(RedisError) in try await redis.sendToMasters(["INFO"])
            }
            if let nodes {
                for (index, (node, reply)) in nodes.enumerated() {
                    let own = try await settings(of: part, info: reply.string ?? "", at: redis, node)
                    findings += Self.named(own, node, isFirst: index == 0)
                }
            } else {
                findings.append(
                    permission(
                        of: part,
                        to: ["info"],
                        "role, version, maxmemory-policy, memory and persistence were not checked",
                        at: redis
                    )
                )
            }
            let clock = try await clockAhead(of: redis)
            findings += [Self.clock(part, ahead: clock), try await scripts(of: part, at: redis)]
            return (findings, clock)
        } catch {
            findings.append(Finding(level: .error, subject: part.rawValue, message: "\(error)"))
            return (findings, nil)
        }
    }

    /// The findings about one node of a cluster, whose messages name it. Fine ones of further nodes are left out.
    private static func named(_ findings: [Finding], _ node: String?, isFirst: Bool) -> [Finding] {
        guard let node else { return findings }
        return findings.filter { isFirst || $0.level != .ok }.map { finding in
            var finding = finding
            finding.message = "\(node): \(finding.message)"
            return finding
        }
    }

    private func settings(
        of part: Part,
        info: String,
        at redis: RedisClient,
        _ node: String?
    ) async throws(RedisError) -> [Finding] {
        var findings = [
            role(of: part, info: info), version(of: part, info: info), policy(of: part, info: info),
            memory(of: part, info: info),
        ]
        findings += try await persistence(of: part, info: info, at: redis, node)
        if part == .control { findings += replicas(info) }
        return findings
    }

    /// - Returns: nil if this user may not run the command, or the server does not have it.
    static func readable<Value>(_ body: () async throws(RedisError) -> Value) async throws(RedisError) -> Value? {
        do throws(RedisError) {
            return try await body()
        } catch {
            guard error.isCommandRefused else { throw error }
            return nil
        }
    }

    /// A warning that something was not checked.
    ///
    /// - Parameter consequence: the end of a sentence, without a period.
    func permission(of part: Part, to commands: [String], _ consequence: String, at redis: RedisClient) -> Finding {
        Finding(
            level: .warning,
            subject: "\(part.rawValue): permissions",
            message:
                "the user \(redis.configuration.user) may not run \(RedisPermission.names(commands)): \(consequence). "
                + RedisPermission.remedy(commands, for: redis.configuration)
        )
    }

    private func latency(of part: Part, at redis: RedisClient) async throws(RedisError) -> Finding {
        // The first ping may have to connect.
        try await redis.send(["PING"])
        var times: [Double] = []
        for _ in 0..<Self.pings {
            let start = ContinuousClock.now
            try await redis.send(["PING"])
            times.append(start.duration(to: .now).inSeconds * 1000)
        }
        times.sort()
        let (median, worst) = (times[times.count / 2], times[times.count - 1])
        let isFine = median < Self.slow && worst < Self.stuck
        return Finding(
            level: isFine ? .ok : .warning,
            subject: "\(part.rawValue): latency",
            message: "\(redis.configuration) answers in \(Self.milliseconds(median)) (median of \(Self.pings)), "
                + "at worst in \(Self.milliseconds(worst))"
                + (isFine ? "" : ". Check the network, and SLOWLOG GET and LATENCY DOCTOR of Redis.")
        )
    }

    private static func milliseconds(_ number: Double) -> String { String(format: "%.1f ms", number) }

    private func role(of part: Part, info: String) -> Finding {
        let role = InfoReply.text("role", in: info) ?? "?"
        return Finding(
            level: role == "master" ? .ok : .error,
            subject: "\(part.rawValue): role",
            message: role == "master"
                ? role
                : "it is not a master (\(role)) and accepts no writes. Use the address of the master, or "
                    + "redis-sentinel://."
        )
    }

    private func version(of part: Part, info: String) -> Finding {
        let version = InfoReply.text("redis_version", in: info) ?? "?"
        let major = version.split(separator: ".").first.flatMap { Int($0) } ?? 0
        return Finding(
            level: major >= 7 ? .ok : .error,
            subject: "\(part.rawValue): version",
            message: major >= 7 ? version : "\(version) is too old: it has no script flags. Use Redis 7.0 or later."
        )
    }

    private func policy(of part: Part, info: String) -> Finding {
        let policy = InfoReply.text("maxmemory_policy", in: info) ?? "?"
        let subject = "\(part.rawValue): maxmemory-policy"
        if part == .control && policy.hasPrefix("allkeys") {
            return Finding(level: .error, subject: subject, message: "\(policy) evicts jobs. Set it to noeviction.")
        }
        if part == .control, isShared, let risk = CacheGrowth(info: info) {
            return Finding(
                level: .warning,
                subject: subject,
                message: "the cache shares this Redis and can fill it; jobs are refused then: \(risk.message)"
            )
        }
        if part == .cache && policy == "noeviction" {
            return Finding(
                level: .warning,
                subject: subject,
                message: "noeviction: a full cache refuses new entries. Set it to allkeys-lru."
            )
        }
        return Finding(level: .ok, subject: subject, message: policy)
    }

    private func memory(of part: Part, info: String) -> Finding {
        let memory = RedisMemory(info: info)
        let subject = "\(part.rawValue): memory"
        if memory.limit == 0 {
            let hint = ": the cache grows until the memory of the machine is full. Set maxmemory."
            return Finding(
                level: part == .cache ? .warning : .ok,
                subject: subject,
                message: "\(memory.used >> 20) MiB, maxmemory is not set" + (part == .cache ? hint : "")
            )
        }
        let warning: String? =
            switch part {
            case .control: memory.jobsWarning
            // A cache that evicts soon becomes full, and that is intended.
            case .cache:
                memory.isNearlyFull && !memory.policy.hasPrefix("allkeys")
                    ? memory.warning(refusing: "new entries") : nil
            }
        return Finding(level: warning == nil ? .ok : .warning, subject: subject, message: warning ?? memory.state)
    }

    /// A cut-off master loses the writes that it still acknowledges, unless it refuses writes without its replicas.
    private func replicas(_ info: String) -> [Finding] {
        let replicas = InfoReply.number("connected_slaves", in: info)
        if replicas == 0 { return [] }
        // The field is present if both min-replicas settings are above 0.
        let good = InfoReply.text("min_slaves_good_slaves", in: info)
        return [
            Finding(
                level: good == nil ? .warning : .ok,
                subject: "\(Part.control.rawValue): replicas",
                message: good.map {
                    "\(replicas) connected, \($0) of them up to date; without these Redis refuses writes"
                }
                    ?? "\(replicas) connected, and min-replicas-to-write is 0: an isolated master keeps accepting "
                    + "jobs, which are lost at the failover. Set min-replicas-to-write 1."
            )
        ]
    }

    /// Loads each script, which compiles it: one that a server cannot run is found here, not in the middle of a batch.
    func scripts(of part: Part, at redis: RedisClient) async throws(RedisError) -> Finding {
        var scripts: [RedisScript] = []
        if part == .control { scripts += QueueScripts.all + HostScripts.all }
        if part == .cache || isShared { scripts += FlightScripts.all }
        let replies = try await redis.pipeline(scripts.map { ["SCRIPT", "LOAD", .string($0.source)] })
        let subject = "\(part.rawValue): scripts"
        for (script, reply) in zip(scripts, replies) {
            if case .error(let text) = reply {
                return Finding(level: .error, subject: subject, message: "\(script.name) does not load: \(text)")
            }
        }
        return Finding(level: .ok, subject: subject, message: "all \(scripts.count) load")
    }
}
