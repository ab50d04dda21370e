import Logging
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster

/// Errors of Redis during a change of the number of shards, and what a refusal says.
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

    /// Fault: a batch that could not be read counted as forgotten, and its shard was removed.
    @Test func aBatchThatCannotBeReadIsNotForgotten() async throws {
        try await withQueue { (setup) async throws in
            try await setup.change(to: 2)
            let (shard, key) = (setup.shards[1], RedisArgument.string(setup.shards[1].keys.batch("b")))
            try await shard.redis.send(["ZADD", .string(shard.keys.batches), "1", "b"])
            try await shard.redis.send(["SET", key, "text"])
            await expect(.server, "shard 1 of", "batch \"b\" has ended", "WRONGTYPE", "megaton queue reshard 1 again") {
                try await setup.change(to: 1)
            }
            let layout = try await shard.layout()
            #expect(layout?.hasPrefix("1/2 ") == true, "the queue is as before")
            try await shard.redis.send(["DEL", key])
            try await shard.redis.send(["HSET", key, "created", "1"])
            await expect(.shardMismatch, "1 batch that has not ended") { try await setup.change(to: 1) }
            try await shard.redis.send(["DEL", key])
            try await setup.change(to: 1)
        }
    }

    @Test func openBatchesAreFoundOnAnyPage() async throws {
        try await withQueue { (setup) async throws in
            try await setup.change(to: 2)
            let shard = setup.shards[1]
            let names = (0..<2500).map { "b\($0)" }
            let entries = names.flatMap { [RedisArgument.int(1), .string($0)] }
            try await shard.redis.send(RedisCommand(["ZADD", .string(shard.keys.batches)] + entries))
            let keys = names.map { RedisArgument.string(shard.keys.batch($0)) }
            _ = try await shard.redis.pipeline(keys.map { ["HSET", $0, "finished", "1"] })
            for index in [0, 1200, 2499] { try await shard.redis.send(["HDEL", keys[index], "finished"]) }
            for index in [1200, 2499] { try await shard.redis.send(["HSET", keys[index], "submitted", "1"]) }
            await expect(.shardMismatch, "2 batches that have not ended") { try await setup.change(to: 1) }
            for index in [1200, 2499] { try await shard.redis.send(["HSET", keys[index], "finished", "1"]) }
            try await setup.change(to: 1)
        }
    }

    /// Fault: webhooks that waited were called outcomes without a reader, and the advice was to read them.
    @Test func webhooksThatWaitAreNamed() async throws {
        try await withQueue { (setup) async throws in
            try await setup.change(to: 2)
            let (redis, keys) = (setup.shards[1].redis, setup.shards[1].keys)
            try await redis.send(["HSET", .string(keys.webhooks), "1", "text 1", "2", "text 2"])
            try await redis.send(["HSET", .string(keys.webhookState), "h:443", "12", "", "12"])
            try await redis.send(["HSET", .string(keys.stat), "outcome_bytes", "12"])
            await expect(.shardMismatch, "it has 2 outcomes for webhooks. Stop", "--webhook-key", "for 24 h") {
                try await setup.change(to: 1)
            }
            try await redis.send(["HSET", .string(keys.stat), "outcome_bytes", "13"])
            await expect(.shardMismatch, "2 outcomes for webhooks, outcomes that no reader") {
                try await setup.change(to: 1)
            }
            let own: [RedisArgument] = [keys.webhooks, keys.webhookState, keys.stat].map { .string($0) }
            try await redis.send(RedisCommand(["DEL"] + own))
            try await setup.change(to: 1)
        }
    }
}
