import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonRedis
import NIOPosix

/// Connections for a command that reads once and ends.
enum InspectorSession {
    /// - Parameter needsCache: false if the command does not read from the cache Redis, which may then be unreachable.
    ///   Of several, one must be reachable.
    static func run(
        _ options: RedisOptions,
        needsCache: Bool = false,
        _ body: (Inspector) async throws -> Void
    ) async throws {
        try await connected(options, needsCache: needsCache) { control, caches in
            try await body(Inspector(queue: JobQueue(control, keys: options.keys), caches: caches))
        }
    }

    /// Connects to the queue alone: the cache Redis may be unreachable.
    static func queue(_ options: RedisOptions, _ body: (JobQueue) async throws -> Void) async throws {
        try await connected(options) { control, _ in try await body(JobQueue(control, keys: options.keys)) }
    }

    /// Connects to the control Redis and the servers of the cache, or fails at once.
    static func connected(
        _ options: RedisOptions,
        needsCache: Bool = false,
        _ body: (RedisClient, [RedisClient]) async throws -> Void
    ) async throws {
        let logger = LogOptions.logger("megaton", level: .error)
        let group = MultiThreadedEventLoopGroup.singleton
        let control = RedisClient(try options.control(), role: "inspect", group: group, logger: logger)
        let caches = try options.caches().map { server in
            RedisClient(server, role: "inspect", group: group, logger: logger)
        }
        defer {
            control.close()
            for cache in caches { cache.close() }
        }
        try await control.connect()
        if needsCache { try await connect(caches) }
        try await body(control, caches)
    }

    /// - Throws: the last error if none of the servers can be reached.
    private static func connect(_ caches: [RedisClient]) async throws {
        var failure: RedisError?
        for cache in caches {
            do throws(RedisError) {
                return try await cache.connect()
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
    }
}
