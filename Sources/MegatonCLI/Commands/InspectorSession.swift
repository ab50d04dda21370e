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
        try await connected(options, needsCache: needsCache, toleratesAbsence: true) { queue, caches in
            try await body(Inspector(queue: queue, caches: caches))
        }
    }

    /// Connects to the queue alone: the cache Redis may be unreachable.
    static func queue(_ options: RedisOptions, _ body: (ShardedQueue) async throws -> Void) async throws {
        try await connected(options) { queue, _ in try await body(queue) }
    }

    /// Connects to all shards of the queue and the servers of the cache, or fails at once.
    ///
    /// - Parameter toleratesAbsence: whether shards other than the first one may be unreachable.
    static func connected(
        _ options: RedisOptions,
        needsCache: Bool = false,
        toleratesAbsence: Bool = false,
        _ body: (ShardedQueue, [RedisClient]) async throws -> Void
    ) async throws {
        if needsCache && !options.namesRedis {
            throw CLIError.usage(
                "no Redis is named: give --redis URL, or set MEGATON_REDIS or redis in a configuration file. The "
                    + "private Redis of a megaton run without --redis ends with it, so that its cache cannot be "
                    + "opened: start a Redis, and give its URL to the run and to this command."
            )
        }
        let logger = LogOptions.logger("megaton", level: .error)
        let group = MultiThreadedEventLoopGroup.singleton
        let caches = try options.caches().map { server in
            RedisClient(server, role: "inspect", group: group, logger: logger)
        }
        defer { for cache in caches { cache.close() } }
        let queue = try await ShardedQueue.open(
            try options.address(),
            role: "inspect",
            toleratesAbsence: toleratesAbsence,
            group: group,
            logger: logger
        )
        defer { queue.close() }
        if needsCache { try await connect(caches) }
        do {
            try await body(queue, caches)
        } catch let error as RedisError where error.isWrongType {
            throw await DamagedKeys.named(error, in: queue)
        }
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
