package import Logging
package import MegatonRedis
package import NIOCore

/// The name of a queue and the Redis servers of its shards: shard k is on the server k modulo their number.
package struct QueueAddress: Sendable, Equatable {
    /// At least one, in the order that all processes of the queue use.
    package let servers: [RedisConfiguration]
    package let queue: String

    package init(_ servers: [RedisConfiguration], queue: String) {
        precondition(!servers.isEmpty, "a queue needs at least one Redis")
        self.servers = servers
        self.queue = queue
    }

    /// The server of a shard.
    package func server(_ shard: Int) -> RedisConfiguration { servers[shard % servers.count] }

    package func keys(_ shard: Int) -> QueueKeys { QueueKeys(queue: queue, shard: shard) }

    /// A shard, on a connection of its own.
    package func shard(_ number: Int, role: String, group: any EventLoopGroup, logger: Logger) -> JobQueue {
        JobQueue(RedisClient(server(number), role: role, group: group, logger: logger), keys: keys(number))
    }

    /// Reads the layout of the queue.
    ///
    /// - Parameter first: shard 0.
    func layout(
        _ first: JobQueue,
        group: any EventLoopGroup,
        logger: Logger
    ) async throws(RedisError) -> ShardLayout {
        // Opened only if shard 0 has no layout.
        let others = servers.dropFirst().map { server in
            RedisClient(server, role: "layout", group: group, logger: logger)
        }
        defer { for other in others { other.close() } }
        let layout = try await ShardLayout.read(
            from: first,
            next: JobQueue(others.first ?? first.redis, keys: keys(1)),
            servers: servers.count
        )
        if !layout.isStored {
            for other in others { try await ShardLayout.requireNone(at: JobQueue(other, keys: keys(0))) }
        }
        if layout.count > 1, layout.misplaced(in: 0..<layout.count, servers: servers.count) != nil {
            throw RedisError(
                .shardMismatch,
                "The queue \"\(queue)\" has \(layout.summary), \(ShardLayout.named(servers.count)). "
                    + "\(ShardLayout.namingRemedy) To use more servers, see megaton queue reshard --help."
            )
        }
        guard servers.count <= layout.count else {
            throw RedisError(
                .shardMismatch,
                "The queue \"\(queue)\" has \(ShardLayout.shards(layout.count)), and "
                    + "\(servers.count) servers are named for it. Name as many as it uses, or divide it with megaton "
                    + "queue reshard \(servers.count)."
            )
        }
        return layout
    }

    /// Checks that no server is named twice: a shard would be on another one than was meant.
    ///
    /// - Throws: `.invalidConfiguration`.
    package static func check(_ servers: [RedisConfiguration]) throws(RedisError) {
        var seen: Set<String> = []
        for server in servers where !seen.insert(server.description).inserted {
            throw RedisError(
                .invalidConfiguration,
                "The control Redis \(server) is named twice; name each server once."
            )
        }
        for server in servers where servers.count > 1 {
            guard case .cluster = server.address else { continue }
            throw RedisError(
                .invalidConfiguration,
                "The Redis Cluster \(server) is named beside another control Redis; name it alone. It spreads the "
                    + "shards of a queue over its masters itself."
            )
        }
    }
}
