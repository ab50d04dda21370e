internal import Logging
internal import MegatonRedis

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

    /// Logs a warning for each of the queue's servers that is also one of the cache, and that the cache can fill: Redis
    /// then refuses jobs, too.
    static func warnIfRisky(_ servers: [RedisClient], caches: [RedisConfiguration], logger: Logger) async {
        for server in servers where caches.contains(server.configuration) {
            await warnIfRisky(server, logger: logger)
        }
    }

    private static func warnIfRisky(_ redis: RedisClient, logger: Logger) async {
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
}
