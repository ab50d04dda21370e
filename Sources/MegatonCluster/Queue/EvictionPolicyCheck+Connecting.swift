internal import Logging
internal import MegatonRedis

extension EvictionPolicyCheck {
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
}
