package import MegatonRedis

/// Checks that a Redis may hold jobs.
package enum EvictionPolicyCheck {
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
