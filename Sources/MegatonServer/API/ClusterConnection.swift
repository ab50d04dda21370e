package import Logging
package import MegatonCluster
package import MegatonRedis
internal import NIOPosix

/// The connections of the HTTP server to a queue and to its shared cache. All requests share them.
package final class ClusterConnection: Sendable {
    /// The servers of the shared cache.
    let caches: [RedisClient]
    private let client: ClusterClient

    /// Time for which a request waits while the number of the queue's shards is being changed.
    private static let changeLimit: Duration = .seconds(5)

    /// Time limit of a connection to Redis, and of a command: clients of the API should learn within few seconds that
    /// Redis is away.
    private static let redisLimit: Duration = .seconds(2)

    /// Nothing is sent yet: a server starts also while Redis is away.
    ///
    /// - Parameter caches: servers of the shared cache.
    package init(_ address: QueueAddress, caches: [RedisConfiguration], logger: Logger) {
        let servers = QueueAddress(address.servers.map(Self.limited), queue: address.queue)
        client = ClusterClient(servers, idleTimeout: Self.changeLimit, logger: logger)
        self.caches = caches.map { server in
            let group = MultiThreadedEventLoopGroup.singleton
            return RedisClient(Self.limited(server), role: "inspect", group: group, logger: logger)
        }
    }

    private static func limited(_ server: RedisConfiguration) -> RedisConfiguration {
        var server = server
        server.connectTimeout = min(server.connectTimeout, redisLimit)
        server.commandTimeout = min(server.commandTimeout, redisLimit)
        return server
    }

    /// The queue on all of its shards, as they are now.
    ///
    /// - Parameter isFresh: whether to look at the shards in any case, as a submitter must; otherwise a look of a
    ///   moment ago is enough.
    package func queue(isFresh: Bool = false) async throws(RedisError) -> ShardedQueue {
        try await client.queue(isFresh: isFresh)
    }

    /// Reads the state of the queue and of the shared cache.
    package func inspector() async throws(RedisError) -> Inspector {
        Inspector(queue: try await queue(), caches: caches)
    }

    /// Closes the connections. Requests that run fail, and so do later ones.
    package func close() {
        client.close()
        for cache in caches { cache.close() }
    }
}
