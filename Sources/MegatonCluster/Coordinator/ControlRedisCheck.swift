public import MegatonRedis

/// Whether a Redis may hold jobs.
public enum ControlRedisCheck {
    /// Refuses a Redis that may evict keys without a time-out: it would lose jobs without a word.
    ///
    /// - Throws: `.invalidConfiguration` with the setting's name and what to do.
    public static func run(_ redis: RedisClient) async throws(RedisError) {
        let info = try await redis.send(["INFO", "memory"]).string ?? ""
        let policy = info.split(whereSeparator: \.isNewline)
            .first { $0.hasPrefix("maxmemory_policy:") }?.dropFirst("maxmemory_policy:".count)
        if let policy, policy.hasPrefix("allkeys") {
            throw RedisError(
                .invalidConfiguration,
                "The control Redis at \(redis.configuration) has maxmemory-policy \(policy), which evicts jobs. "
                    + "Set maxmemory-policy to noeviction, or give the cache a Redis of its own with --cache-redis."
            )
        }
    }
}
