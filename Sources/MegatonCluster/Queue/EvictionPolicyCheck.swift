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
            try await run(redis)
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

    /// Rejects a Redis that may evict keys without a time-out: it would lose jobs without an error.
    ///
    /// - Throws: `.invalidConfiguration` with the setting's name and the value that it needs.
    package static func run(_ redis: RedisClient) async throws(RedisError) {
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
