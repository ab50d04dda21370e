import Logging
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster

/// The connections that the first calls of a client open.
@Suite(.timeLimit(.minutes(2))) struct ClusterClientOpeningTests {
    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    /// The shards of a queue that was divided, on some servers.
    private func divided(_ servers: [RedisServerProcess], shards: Int) async throws -> [JobQueue] {
        let address = QueueAddress(servers.map(\.configuration), queue: "default")
        let all = (0..<shards).map {
            address.shard($0, role: "test", group: MultiThreadedEventLoopGroup.singleton, logger: logger)
        }
        _ = try await Resharding(address) { all[$0] }.change(to: shards)
        return all
    }

    /// Number of connections of clients to a server.
    private func connections(_ redis: RedisClient) async throws -> Int {
        let list = try await redis.send(["CLIENT", "LIST"]).string ?? ""
        return list.split(whereSeparator: \.isNewline).count { $0.contains("name=megaton:client ") }
    }

    /// Fault: each of several first calls opened connections of its own, and only the last ones were used.
    @Test func firstCallsShareOneOpening() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let shards = try await divided([server], shards: 3)
            defer { for shard in shards { shard.close() } }
            let client = try ClusterClient(redis: server.url, logger: logger)
            defer { client.close() }
            try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<16 { group.addTask { try await client.queue().shards.count } }
                for try await count in group { #expect(count == 3) }
            }
            #expect(try await connections(shards[0].redis) == 3)
        }
    }

    @Test func aFailedOpeningIsNotRemembered() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let shards = try await divided([server], shards: 2)
            defer { for shard in shards { shard.close() } }
            let client = try ClusterClient(redis: server.url, logger: logger)
            defer { client.close() }
            let key = RedisArgument.string(shards[1].keys.layout)
            let copy = try #require(try await shards[1].layout())
            try await shards[1].redis.send(["SET", key, "damaged"])
            await #expect { _ = try await client.queue() } throws: { ($0 as? RedisError)?.code == .shardMismatch }
            try await shards[1].redis.send(["SET", key, .string(copy)])
            let queue = try await client.queue()
            #expect(queue.shards.count == 2)
        }
    }

    @Test func aCancelledCallFailsAloneAndAtOnce() async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await FaultProxy.run(to: .unix(path: server.socket)) { (proxy) async throws in
                proxy.blackHole(true)
                let client = try ClusterClient(redis: proxy.url, logger: logger)
                defer { client.close() }
                let first = Task { try await client.queue() }
                let second = Task { try await client.queue() }
                await proxy.waitForConnections(1)
                first.cancel()
                await #expect { _ = try await first.value } throws: { "\($0)".contains("was cancelled") }
                proxy.blackHole(false)
                #expect(try await second.value.shards.count == 1)
            }
        }
    }

    /// Fault: the connections to other shards stayed open if the client was closed while they were being opened.
    @Test func nothingIsOpenIfTheClientWasClosedMeanwhile() async throws {
        try await RedisServerProcess.run { (first) async throws in
            try await RedisServerProcess.run { (second) async throws in
                let shards = try await divided([first, second], shards: 2)
                defer { for shard in shards { shard.close() } }
                try await FaultProxy.run(to: .unix(path: second.socket)) { (proxy) async throws in
                    proxy.blackHole(true)
                    let client = try ClusterClient(redis: "\(first.url) \(proxy.url)", logger: logger)
                    let call = Task { try await client.queue() }
                    // Shard 0 has answered.
                    await proxy.waitForConnections(1)
                    client.close()
                    proxy.blackHole(false)
                    await #expect { _ = try await call.value } throws: { ($0 as? RedisError)?.code == .closed }
                    while try await connections(shards[0].redis) + connections(shards[1].redis) > 0 {
                        await Task.yield()
                    }
                    await #expect { _ = try await client.queue() } throws: { ($0 as? RedisError)?.code == .closed }
                }
            }
        }
    }
}
