internal import Foundation
internal import MegatonPipeline
public import MegatonRedis

/// Looks for what will go wrong later.
public struct Doctor: Sendable {
    /// One thing that was looked at.
    public struct Finding: Sendable, Codable, Equatable {
        /// How bad it is.
        public enum Level: String, Sendable, Codable {
            case ok, warning, error
        }

        public var level: Level
        public var subject: String
        /// What was found and, unless it is fine, what to do.
        public var message: String
    }

    private let control: RedisClient
    private let cache: RedisClient
    private let isShared: Bool
    private let keys: QueueKeys

    /// Seconds: three times as long as a worker takes between two signs with its default lease.
    private static let silence: Double = 15

    /// - Parameter cache: the control's again where one Redis serves both.
    public init(control: RedisClient, cache: RedisClient, keys: QueueKeys) {
        self.control = control
        self.cache = cache
        self.keys = keys
        isShared = control.configuration == cache.configuration
    }

    /// All findings, the fine ones too.
    public func examine() async -> [Finding] {
        var findings = await server("control Redis", control, isControl: true)
        if !isShared { findings += await server("cache Redis", cache, isControl: false) }
        findings.append(libvips())
        findings += await queueState()
        return findings
    }

    private func server(_ subject: String, _ redis: RedisClient, isControl: Bool) async -> [Finding] {
        do {
            let start = ContinuousClock.now
            try await redis.send(["PING"])
            let latency = start.duration(to: .now).inSeconds * 1000
            let info = try await redis.send(["INFO"]).string ?? ""
            var findings = [
                Finding(
                    level: latency < 20 ? .ok : .warning,
                    subject: "\(subject): latency",
                    message: "\(redis.configuration) answers in \(String(format: "%.1f", latency)) ms"
                ),
                version(subject, Inspector.text("redis_version", info) ?? "?"),
                policy(subject, Inspector.text("maxmemory_policy", info) ?? "?", isControl: isControl),
            ]
            if isControl {
                let isKept = Inspector.field("aof_enabled", info) == 1
                findings.append(
                    Finding(
                        level: isKept ? .ok : .warning,
                        subject: "\(subject): persistence",
                        message: isKept
                            ? "appendonly is on"
                            : "appendonly is off: jobs are lost when this Redis stops. Set appendonly yes."
                    )
                )
                findings.append(try await scripts(redis))
            } else if Inspector.field("maxmemory", info) == 0 {
                findings.append(
                    Finding(
                        level: .warning,
                        subject: "\(subject): limit",
                        message: "maxmemory is not set: the cache grows until the machine is full. Set maxmemory."
                    )
                )
            }
            return findings
        } catch {
            return [Finding(level: .error, subject: subject, message: "\(error)")]
        }
    }

    private func version(_ subject: String, _ version: String) -> Finding {
        let major = version.split(separator: ".").first.flatMap { Int($0) } ?? 0
        return Finding(
            level: major >= 7 ? .ok : .error,
            subject: "\(subject): version",
            message: major >= 7 ? version : "\(version) has no script flags; Redis 7.0 or later is needed"
        )
    }

    private func policy(_ subject: String, _ policy: String, isControl: Bool) -> Finding {
        let subject = "\(subject): maxmemory-policy"
        if isControl && policy.hasPrefix("allkeys") {
            return Finding(level: .error, subject: subject, message: "\(policy) evicts jobs. Set it to noeviction.")
        }
        if !isControl && policy == "noeviction" {
            return Finding(
                level: .warning,
                subject: subject,
                message: "noeviction: a full cache refuses new entries. Set it to allkeys-lru or allkeys-lfu."
            )
        }
        return Finding(level: .ok, subject: subject, message: policy)
    }

    private func scripts(_ redis: RedisClient) async throws(RedisError) -> Finding {
        // Loading compiles: what a server cannot run is found here, not in the middle of a batch.
        for script in [
            QueueScripts.submit, QueueScripts.stage, QueueScripts.admit, QueueScripts.claim, QueueScripts.renew,
            QueueScripts.settle, QueueScripts.retry, QueueScripts.release, QueueScripts.sweep,
        ] {
            try await redis.send(["SCRIPT", "LOAD", .string(script.source)])
        }
        return Finding(level: .ok, subject: "control Redis: scripts", message: "all scripts load")
    }

    private func libvips() -> Finding {
        do throws(ImagePipeline.Error) {
            try VipsRuntime.start()
            return Finding(
                level: .ok,
                subject: "libvips",
                message: "\(VipsRuntime.version), untrusted loaders are blocked; read are "
                    + AssetType.supported.map(\.description).sorted().joined(separator: ", ")
            )
        } catch {
            return Finding(level: .error, subject: "libvips", message: error.message)
        }
    }

    private func queueState() async -> [Finding] {
        do {
            let status = try await Inspector(queue: JobQueue(control, keys: keys), cache: cache).status()
            let waiting = status.intake + status.staged
            let silent = status.workers.count { $0.silent > Self.silence }
            return [
                Finding(
                    level: status.leader != nil || waiting == 0 ? .ok : .warning,
                    subject: "coordinator",
                    message: status.leader.map { "\($0) leads" }
                        ?? "none leads; \(waiting) jobs wait to be admitted. Start megaton coordinator."
                ),
                Finding(
                    level: silent == 0 ? .ok : .warning,
                    subject: "silent workers",
                    message: silent == 0
                        ? "none"
                        : "\(silent) have given no sign of life for \(Int(Self.silence)) s: they died or hang. Their jobs go to others."
                ),
                Finding(
                    level: !status.workers.isEmpty || status.ready + waiting == 0 ? .ok : .warning,
                    subject: "workers",
                    message: status.workers.isEmpty
                        ? "none is there; \(status.ready) jobs are ready. Start megaton worker."
                        : "\(status.workers.count) are there"
                ),
                Finding(
                    level: status.dead == 0 ? .ok : .warning,
                    subject: "dead jobs",
                    message: status.dead == 0
                        ? "none" : "\(status.dead): look at the reasons in the hash \(keys.deadInfo)"
                ),
            ]
        } catch {
            return [Finding(level: .error, subject: "queue", message: "\(error)")]
        }
    }
}
