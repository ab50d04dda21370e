internal import Logging
package import MegatonRedis

/// Checks that a Redis may hold jobs.
package enum EvictionPolicyCheck {
    /// Connects, with retries while Redis is unreachable, and then checks it.
    ///
    /// A server that starts together with its Redis may be ready first; if it gave up at once, its service manager
    /// would have to restart it again and again. Cancellation ends the waiting, and the client fails fast from then on.
    ///
    /// - Parameter limit: how long to retry; zero makes one attempt.
    /// - Throws: the error of the last attempt, or the error of ``run(_:)``.
    static func connect(_ redis: RedisClient, waiting limit: Duration, logger: Logger) async throws {
        try await withTaskCancellationHandler {
            do throws(RedisError) {
                try await redis.connect()
            } catch {
                guard error.isTransient, limit > .zero else { throw error }
                let metadata: Logger.Metadata = [LogKey.error: "\(error)", LogKey.limit: "\(limit)"]
                logger.notice("waiting for Redis: it is unreachable", metadata: metadata)
                try await wait(for: redis, limit)
                logger.notice("Redis answers")
            }
            if let reason = try await run(redis) {
                logger.warning("this Redis cannot be checked", metadata: [LogKey.error: "\(reason)"])
            }
        } onCancel: {
            redis.failFast()
        }
    }

    private static func wait(for redis: RedisClient, _ limit: Duration) async throws(RedisError) {
        do throws(RedisError) {
            try await redis.connect(waiting: limit)
        } catch {
            guard error.isTransient else { throw error }
            throw RedisError(error.code, "\(error.message) Gave up after \(limit.components.seconds) s.")
        }
    }

    /// Logs a warning if the cache shares the Redis of the jobs and can fill it: Redis then refuses jobs, too.
    static func warnIfCacheFillsQueue(_ redis: RedisClient, logger: Logger) async {
        do throws(RedisError) {
            let info = try await redis.send(["INFO", "memory"]).string ?? ""
            guard let risk = CacheGrowth(info: info) else { return }
            logger.warning(
                "the cache shares the Redis of the queue and can fill it; jobs are refused then",
                metadata: ["redis.address": "\(redis.configuration)", "reason": "\(risk.message)"]
            )
        } catch {
            logger.debug("cannot check the settings of Redis", metadata: [LogKey.error: "\(error)"])
        }
    }

    /// Rejects a Redis that may evict keys without a time-out: it would lose jobs without an error.
    ///
    /// - Returns: nil, or a message for people if the user may not ask: which commands to grant, and the risk without
    ///   them. Such a Redis is accepted.
    /// - Throws: `.invalidConfiguration` with the setting's name and the value that it needs.
    @discardableResult
    package static func run(_ redis: RedisClient) async throws(RedisError) -> String? {
        var refused: [String] = []
        // A node of a cluster that evicts is as bad as a server that does.
        if let nodes = try await reply(of: redis, to: ["INFO", "memory"]) {
            for (node, reply) in nodes { try check(reply.string ?? "", of: node, redis.configuration) }
        } else {
            refused.append("info")
        }
        if try await reply(of: redis, to: ["ROLE"]) == nil { refused.append("role") }
        if refused.isEmpty { return nil }
        return
            "The Redis user \(redis.configuration.user) may not run \(RedisPermission.names(refused)), so it is "
            + "unknown whether the control Redis at \(redis.configuration) evicts jobs (maxmemory-policy must be "
            + "noeviction) or is a replica. \(RedisPermission.remedy(refused, for: redis.configuration))"
    }

    /// - Returns: the replies of all nodes; nil if this user may not run the command, or the server does not have it.
    private static func reply(
        of redis: RedisClient,
        to command: RedisCommand
    ) async throws(RedisError) -> [(node: String?, reply: RedisValue)]? {
        do throws(RedisError) {
            return try await redis.sendToMasters(command)
        } catch {
            guard error.isCommandRefused else { throw error }
            return nil
        }
    }

    private static func check(
        _ info: String,
        of node: String?,
        _ configuration: RedisConfiguration
    ) throws(RedisError) {
        let policy = info.split(whereSeparator: \.isNewline)
            .first { $0.hasPrefix("maxmemory_policy:") }?.dropFirst("maxmemory_policy:".count)
        guard let policy, policy.hasPrefix("allkeys") else { return }
        throw RedisError(
            .invalidConfiguration,
            "The control Redis at \(node ?? "\(configuration)") has maxmemory-policy \(policy), which evicts jobs. "
                + "Set maxmemory-policy to noeviction, or give the cache a Redis of its own with --cache-redis."
        )
    }
}

/// Texts about commands that a user of Redis may not run, and without which a check or a figure is missing.
///
/// Commands are named as in ACL rules: `info`, `config|get`.
enum RedisPermission {
    /// The commands as Redis documents them: `INFO and CONFIG GET`.
    static func names(_ commands: [String]) -> String {
        let names = commands.map { $0.uppercased().split(separator: "|").joined(separator: " ") }
        guard names.count > 1, let last = names.last else { return names.joined() }
        return names.dropLast().joined(separator: ", ") + " and " + last
    }

    /// A sentence that says how to grant the commands.
    static func remedy(_ commands: [String], for configuration: RedisConfiguration) -> String {
        "To allow it: ACL SETUSER \(configuration.user) \(commands.map { "+" + $0 }.joined(separator: " "))"
    }
}

/// The risk that a cache fills the Redis that it shares with a queue.
struct CacheGrowth {
    /// The setting, what it leads to, and the remedy.
    let message: String

    private static let remedy =
        "Give the cache a Redis of its own with --cache-redis, or set maxmemory and maxmemory-policy volatile-lru."

    /// - Parameter info: reply to INFO.
    /// - Returns: nil if Redis evicts entries of the cache before it is full.
    init?(info: String) {
        // Unknown if the user may not ask.
        func value(_ name: String) -> Substring? {
            info.split(whereSeparator: \.isNewline).first { $0.hasPrefix(name + ":") }?.dropFirst(name.count + 1)
        }
        guard let policy = value("maxmemory_policy") else { return nil }
        if policy == "noeviction" {
            message = "maxmemory-policy is noeviction, so that the entries of the cache fill the memory. \(Self.remedy)"
        } else if value("maxmemory") == "0" {
            message = "maxmemory is not set, so that the cache grows until the machine has no memory. \(Self.remedy)"
        } else {
            return nil
        }
    }
}
