import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonRedis
import NIOPosix

/// Connections for a command that reads once and ends.
enum InspectorSession {
    /// - Parameter needsCache: false if the command does not read from the cache Redis, which may then be unreachable.
    static func run(
        _ options: RedisOptions,
        needsCache: Bool = false,
        _ body: (Inspector) async throws -> Void
    ) async throws {
        try await connected(options, needsCache: needsCache) { control, cache in
            try await body(Inspector(queue: JobQueue(control, keys: options.keys), cache: cache))
        }
    }

    /// Connects to the queue alone: the cache Redis may be unreachable.
    static func queue(_ options: RedisOptions, _ body: (JobQueue) async throws -> Void) async throws {
        try await connected(options) { control, _ in try await body(JobQueue(control, keys: options.keys)) }
    }

    /// Connects to both, or fails at once.
    static func connected(
        _ options: RedisOptions,
        needsCache: Bool = false,
        _ body: (RedisClient, RedisClient) async throws -> Void
    ) async throws {
        let logger = LogOptions.logger("megaton", level: .error)
        let group = MultiThreadedEventLoopGroup.singleton
        let control = RedisClient(try options.control(), role: "inspect", group: group, logger: logger)
        let cache = RedisClient(try options.cache(), role: "inspect", group: group, logger: logger)
        defer {
            control.close()
            cache.close()
        }
        try await control.connect()
        if needsCache { try await cache.connect() }
        try await body(control, cache)
    }
}
