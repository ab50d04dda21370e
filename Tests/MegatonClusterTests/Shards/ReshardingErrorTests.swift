import Logging
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster

/// Errors of Redis during a change of the number of shards.
@Suite(.timeLimit(.minutes(2))) struct ReshardingErrorTests {
    /// A queue on one server, with a connection to each of its possible shards.
    private struct Setup: Sendable {
        let server: RedisServerProcess
        let address: QueueAddress
        let shards: [JobQueue]

        func change(to count: Int) async throws {
            _ = try await Resharding(address) { shards[$0] }.change(to: count)
        }
    }

    private func withQueue(_ body: (Setup) async throws -> Void) async throws {
        try await RedisServerProcess.run { (server) async throws in
            let address = QueueAddress([server.configuration], queue: "q")
            let shards = (0..<4).map { number in
                address.shard(
                    number,
                    role: "test",
                    group: MultiThreadedEventLoopGroup.singleton,
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
                )
            }
            defer { for shard in shards { shard.close() } }
            try await body(Setup(server: server, address: address, shards: shards))
        }
    }

    /// Expects an error whose message has all parts.
    private func expect(
        _ code: RedisError.Code,
        _ parts: String...,
        from body: () async throws -> Void
    ) async {
        await #expect { try await body() } throws: { error in
            guard let error = error as? RedisError else { return false }
            return error.code == code && parts.allSatisfy { error.message.contains($0) }
        }
    }

    /// Fault: "Redis answered: WRONGTYPE …" was all that the operator read.
    @Test func anErrorNamesItsStepAndShard() async throws {
        try await withQueue { (setup) async throws in
            let shard = setup.shards[2]
            try await shard.redis.send(["SET", .string(shard.keys.control), "text"])
            let step = "Copying the pauses to shard 2 of the queue \"q\" (\(setup.server.url)) failed: Redis answered"
            await expect(.server, step, "value. The change to 3 shards has begun") { try await setup.change(to: 3) }
            try await shard.redis.send(["DEL", .string(shard.keys.control)])
            try await setup.change(to: 3)
            try await shard.redis.send(["SET", .string(shard.keys.dead), "text"])
            await expect(.server, "Looking for work in shard 2 of") { try await setup.change(to: 1) }
            let layout = try await setup.shards[0].layout()
            #expect(layout?.hasPrefix("0/3 ") == true, "the queue is as before")
        }
    }
}
