import Logging
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Synchronization
import Testing

@testable import MegatonCluster

/// Changes of the number of shards, or of the servers that are named, of queues on several Redis.
@Suite(.timeLimit(.minutes(2))) struct ReshardingServersTests {
    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    private let group = MultiThreadedEventLoopGroup.singleton

    /// - Returns: the previous number of shards, and the number of sentences about losses.
    @discardableResult
    private func change(
        _ servers: [RedisConfiguration],
        to count: Int,
        acceptsLoss: Bool = false,
        _ losses: Losses = Losses()
    ) async throws -> (old: Int, losses: Int) {
        let address = QueueAddress(servers, queue: "q")
        let shards = (0..<8).map { address.shard($0, role: "test", group: group, logger: logger) }
        defer { for shard in shards { shard.close() } }
        let old = try await Resharding(address) { shards[$0] }.change(to: count, acceptsLoss: acceptsLoss) { text in
            losses.texts.withLock { $0.append(text) }
        }
        return (old, losses.texts.withLock { $0.count })
    }

    private final class Losses: Sendable {
        let texts = Mutex<[String]>([])
    }

    /// The numbers of the shards that a process finds.
    private func open(_ servers: [RedisConfiguration]) async throws -> Int {
        let address = QueueAddress(servers, queue: "q")
        let queue = try await ShardedQueue.open(address, role: "test", group: group, logger: logger)
        queue.close()
        return queue.shards.count
    }

    private func expectMismatch(_ part: String, _ body: () async throws -> Void) async {
        await #expect { try await body() } throws: { error in
            guard let error = error as? RedisError else { return false }
            return error.code == .shardMismatch && error.message.contains(part)
        }
    }

    private func withServers(
        _ body: (RedisConfiguration, RedisConfiguration, RedisConfiguration) async throws -> Void
    ) async throws {
        try await RedisServerProcess.run { (a) async throws in
            try await RedisServerProcess.run { (b) async throws in
                try await RedisServerProcess.run { (c) async throws in
                    try await body(a.configuration, b.configuration, c.configuration)
                }
            }
        }
    }

    private func send(_ command: RedisCommand, to server: RedisConfiguration) async throws {
        let client = RedisClient(server, role: "test", group: group, logger: logger)
        defer { client.close() }
        try await client.send(command)
    }

    /// Faults: a change to fewer servers removed shards that it had not looked at, with their jobs; a change that named
    /// all servers was refused.
    @Test func aShardOnAServerThatIsNotNamedIsNotRemoved() async throws {
        try await withServers { (a, b, c) async throws in
            try await change([a, b, c], to: 3)
            let jobs = RedisArgument.string(QueueKeys(queue: "q", shard: 2).jobs)
            try await send(["LPUSH", jobs, "{}"], to: c)
            for (servers, count) in [([a], 1), ([a, b], 2), ([a, b], 1)] {
                await expectMismatch("it is unknown whether shard") { try await change(servers, to: count) }
            }
            await expectMismatch("1 job that has not ended") { try await change([a, b, c], to: 2) }
            #expect(try await open([a, b, c]) == 3, "the queue is as before")
            try await send(["DEL", jobs], to: c)
            #expect(try await change([a, b, c], to: 2) == (old: 3, losses: 0))
            #expect(try await open([a, b]) == 2)
            #expect(try await change([a, b], to: 1).old == 2)
            #expect(try await open([a]) == 1)
            #expect(try await change([a, b], to: 2).old == 1)
        }
    }

    /// As above, with copies of an earlier checkout, which do not have the number of servers.
    @Test func aRemovedShardMustHaveItsCopy() async throws {
        try await withServers { (a, b, _) async throws in
            for (number, server) in [a, b].enumerated() {
                let key = RedisArgument.string(QueueKeys(queue: "q", shard: number).layout)
                try await send(["SET", key, .string("\(number)/2 former")], to: server)
            }
            await expectMismatch("its jobs may be on another server") { try await change([a], to: 1) }
            #expect(try await change([a, b], to: 1).old == 2)
        }
    }

    /// Fault: the message about a server that was added, or was missing, recommended `--accept-loss`, which cut off
    /// jobs.
    @Test func anotherNumberOfServersIsNoLoss() async throws {
        try await withServers { (a, b, c) async throws in
            try await change([a], to: 3)
            for servers in [[a, b], [a, b, c]] {
                let error = await #expect(throws: RedisError.self) { _ = try await open(servers) }
                #expect(error?.message.contains("3 shards on one server, and \(servers.count) are named") == true)
                #expect(error?.message.contains("accept-loss") == false)
                await expectMismatch("would be on another server than its jobs") {
                    try await change(servers, to: 3, acceptsLoss: true)
                }
            }
            #expect(try await open([a]) == 3)
            try await change([a], to: 1)
            try await change([a, b], to: 2)
            let error = await #expect(throws: RedisError.self) { _ = try await open([b]) }
            #expect(error?.message.contains("2 shards on 2 servers, and one is named") == true)
            #expect(error?.message.contains("accept-loss") == false)
            await expectMismatch("and one is named") { try await change([b], to: 2, acceptsLoss: true) }
            #expect(try await change([a, b, c], to: 4).old == 2, "a server more, if each has one shard")
        }
    }

    /// As above, with copies of an earlier checkout.
    @Test func aShardOnAnotherNamedServerIsNotLost() async throws {
        try await withServers { (a, b, _) async throws in
            for number in 0..<3 {
                let key = RedisArgument.string(QueueKeys(queue: "q", shard: number).layout)
                try await send(["SET", key, .string("\(number)/3 former")], to: a)
            }
            await expectMismatch("nothing is lost") { try await change([a, b], to: 3, acceptsLoss: true) }
            #expect(try await change([a], to: 3).old == 3)
        }
    }

    @Test func aLossIsReported() async throws {
        try await withServers { (a, b, c) async throws in
            try await change([a, b, c], to: 3)
            try await send(["FLUSHALL"], to: b)
            await expectMismatch("add --accept-loss") { try await change([a, b, c], to: 3) }
            #expect(try await change([a, b, c], to: 3, acceptsLoss: true) == (old: 3, losses: 1))
            #expect(try await change([a, b], to: 2, acceptsLoss: true) == (old: 3, losses: 1), "c is lost for good")
            #expect(try await open([a, b]) == 2)
            try await send(["FLUSHALL"], to: a)
            #expect(try await change([a, b], to: 2, acceptsLoss: true) == (old: 2, losses: 1))
        }
    }

    /// Faults: a change that was refused reported shards as given up; batches lost the counters of a removed shard
    /// without a word.
    @Test func onlyAChangeThatIsPossibleReportsLosses() async throws {
        try await withServers { (a, b, c) async throws in
            try await change([a, b, c], to: 3)
            try await send(["FLUSHALL"], to: b)
            let jobs = RedisArgument.string(QueueKeys(queue: "q", shard: 2).jobs)
            try await send(["LPUSH", jobs, "{}"], to: c)
            let losses = Losses()
            await expectMismatch("has 1 job that has not ended") {
                try await change([a, b, c], to: 2, acceptsLoss: true, losses)
            }
            #expect(losses.texts.withLock { $0 } == [])
            try await send(["DEL", jobs], to: c)
            let keys = QueueKeys(queue: "q", shard: 2)
            try await send(["ZADD", .string(keys.batches), "1", "b", "2", "elsewhere"], to: c)
            try await send(["HSET", .string(keys.batch("elsewhere")), "done", "0", "finished", "1"], to: c)
            try await send(["HSET", .string(keys.batch("b")), "done", "3", "finished", "1"], to: c)
            try await change([a, b, c], to: 2, acceptsLoss: true, losses)
            let texts = losses.texts.withLock { $0 }
            #expect(texts.count == 2 && texts.first?.contains("Shard 1") == true, "\(texts)")
            let removed = "Shard 2 of the queue \"q\" had jobs of 1 ended batch (b): "
            #expect(texts.last?.contains(removed) == true, "\(texts)")
        }
    }

    /// Fault: without the server of shard 0, a second layout of the queue was written.
    @Test func aQueueWithoutItsFirstServerIsNotDividedAnew() async throws {
        try await withServers { (a, b, c) async throws in
            try await change([a, b, c], to: 3)
            await expectMismatch("3 shards on 3 servers") { try await change([b, c], to: 2) }
            await expectMismatch("3 shards on 3 servers") { try await change([c], to: 2) }
            #expect(try await open([a, b, c]) == 3)
        }
    }

    /// Fault: the advice after such a loss was to give up the shards above the old number.
    @Test func copiesOfALaterLayoutAreMadeTheSame() async throws {
        try await withServers { (a, b, _) async throws in
            try await change([a, b], to: 3)
            let key = RedisArgument.string(QueueKeys(queue: "q").layout)
            let client = RedisClient(a, role: "test", group: group, logger: logger)
            defer { client.close() }
            let former = try #require(try await client.send(["GET", key]).string)
            try await change([a, b], to: 5)
            try await client.send(["SET", key, .string(former)])
            await expectMismatch("megaton queue reshard 5 makes") { _ = try await open([a, b]) }
            try await change([a, b], to: 5)
            #expect(try await open([a, b]) == 5)
        }
    }

    @Test func aLayoutKnowsItsServers() {
        #expect(ShardLayout(count: 3, id: ShardLayout.makeID(servers: 2)).servers == 2)
        #expect(ShardLayout(count: 3, id: "1f.4").servers == nil, "more than shards")
        #expect(ShardLayout(count: 3, id: "former").servers == nil)
        #expect(ShardLayout().servers == nil)
        #expect(ShardLayout(count: 3, id: "1f.2").summary == "3 shards on 2 servers")
    }
}
