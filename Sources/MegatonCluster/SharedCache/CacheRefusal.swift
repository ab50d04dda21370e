internal import Logging
internal import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

/// A server of the shared cache that refuses a worker, for example because of a wrong password.
///
/// The worker does without it: its jobs are done, but their images are fetched and rendered by each worker again. Only
/// the log shows that, so that it has the reason at the start.
enum CacheRefusal {
    /// Time for all servers; one that does not answer is no refusal.
    private static let limit: Duration = .seconds(2)

    /// Logs a warning for each server that refuses the user of the configuration.
    static func warn(_ caches: [RedisConfiguration], group: any EventLoopGroup, logger: Logger) async {
        await withTaskGroup(of: Void.self) { tasks in
            for cache in caches { tasks.addTask { await warn(cache, group, logger) } }
        }
    }

    /// Whether a server answers within the limit, and why it refuses the user, in the words of Redis.
    static func ask(_ redis: RedisClient, within limit: Duration) async -> (isReachable: Bool, refusal: String?) {
        await TimeLimit.run(limit) { () -> (Bool, String?) in
            do throws(RedisError) {
                try await redis.connect()
                return (true, nil)
            } catch {
                return error.isTransient ? (false, nil) : (true, error.message)
            }
        } ?? (false, nil)
    }

    private static func warn(_ cache: RedisConfiguration, _ group: any EventLoopGroup, _ logger: Logger) async {
        let redis = RedisClient(cache, role: "check", group: group, logger: logger)
        defer { redis.close() }
        guard let reason = await ask(redis, within: limit).refusal else { return }
        logger.warning(
            "the shared cache refuses this worker, whose jobs are done without it",
            metadata: ["redis.address": "\(cache)", "reason": "\(reason)"]
        )
    }
}
