import Foundation
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

/// The outcomes of a batch on several shards, without workers.
@Suite(.timeLimit(.minutes(1))) struct OutcomeCursorsTests {
    /// Stores outcomes of a batch `b`, as scripts do.
    private func store(_ numbers: Range<Int>, in queue: JobQueue) async throws {
        let lines: [RedisArgument] = numbers.map { number in
            .buffer(ByteBuffer(bytes: JobOutcome(id: "j\(number)", source: "s", status: .done).json()))
        }
        try await queue.redis.send(["HINCRBY", .string(queue.keys.batch("b")), "outcomes", .int(lines.count)])
        try await queue.redis.send(RedisCommand([.string("RPUSH"), .string(queue.keys.results("b"))] + lines))
    }

    private func withShards(
        _ body: (ShardedQueue, RedisServerProcess) async throws -> Void
    ) async throws {
        try await RedisServerProcess.run { (first) async throws in
            try await RedisServerProcess.run { (second) async throws in
                let clients = [first.client(), second.client()]
                defer { for client in clients { client.close() } }
                let shards = clients.enumerated().map { number, client in
                    JobQueue(client, keys: QueueKeys(queue: "test", shard: number))
                }
                try await body(ShardedQueue(shards, layout: ShardLayout(count: 2, id: "x")), second)
            }
        }
    }

    /// Fault: each call waited 5 s for the shard that was away, so that the outcomes of the other came at a thousand in
    /// that time.
    @Test func aShardThatIsAwayIsLeftOut() async throws {
        try await withShards { (queue, second) async throws in
            try await store(0..<2500, in: queue.shards[0])
            try await store(2500..<2600, in: queue.shards[1])
            var cursors = OutcomeCursors(queue: queue, batch: "b")
            let start = ContinuousClock.now
            // The first page is that of shard 0, the next one that of shard 1.
            #expect(try await cursors.next(at: start).count == 1000)
            await second.crash()
            queue.shards[1].redis.failFast()
            #expect(try await cursors.next(at: start).count == 1000)
            #expect(cursors.hasNewFailure)
            #expect(try await cursors.next(at: start).count == 500)
            #expect(!cursors.hasNewFailure, "it was not asked again")
            await #expect { _ = try await cursors.next(at: start) } throws: { ($0 as? RedisError)?.isTransient == true }
            #expect(!cursors.hasNewFailure, "an empty page would say that there are no more")
            let later = ContinuousClock.now + OutcomeCursors.retryInterval
            await #expect { _ = try await cursors.next(at: later) } throws: { ($0 as? RedisError)?.isTransient == true }
            #expect(cursors.hasNewFailure)
        }
    }

    @Test func aShardThatIsBackIsReadOn() async throws {
        try await withShards { (queue, second) async throws in
            try await store(0..<3, in: queue.shards[0])
            var cursors = OutcomeCursors(queue: queue, batch: "b")
            await second.crash()
            #expect(try await cursors.next().count == 3)
            queue.shards[1].redis.failFast()
            await #expect(throws: RedisError.self) { _ = try await cursors.next() }
            try await second.startAgain()
            var page: [Data] = []
            while page.isEmpty {
                try Task.checkCancellation()
                // Its client may still have the old connection.
                guard (try? await queue.shards[1].redis.send(["PING"])) != nil else { continue }
                try await store(3..<5, in: queue.shards[1])
                page = try await cursors.next(at: .now + OutcomeCursors.retryInterval)
            }
            #expect(page.count == 2 && cursors.history.number == 5)
            #expect(try await cursors.next(at: .now + OutcomeCursors.retryInterval).isEmpty && !cursors.hasNewFailure)
        }
    }

    /// A page is acknowledged when its shard is read again, not with the next page.
    @Test func aReaderThatStopsHasNotAcknowledgedAPageOfEachShard() async throws {
        try await withShards { (queue, _) async throws in
            try await store(0..<1200, in: queue.shards[0])
            try await store(1200..<2400, in: queue.shards[1])
            var first = OutcomeCursors(queue: queue, batch: "b")
            for count in [1000, 1000, 200] { #expect(try await first.next().count == count) }
            let left = try await queue.readCounts(of: "b")
            #expect(left == [1000, 0], "shard 1 was read once")
            var second = OutcomeCursors(queue: queue, batch: "b", histories: left.map { OutcomeHistory(after: $0) })
            var again = 0
            while case let page = try await second.next(), !page.isEmpty { again += page.count }
            #expect(again == 1400)
        }
    }

    /// Fault: a reader remembered four million outcomes of each shard, which is 8 GB for 128 shards.
    @Test func theShardsShareTheMemoryOfAReader() throws {
        let redis = try RedisServerProcess.client(ofSocket: "/nowhere.sock")
        defer { redis.close() }
        let shards = (0..<128).map { JobQueue(redis, keys: QueueKeys(queue: "test", shard: $0)) }
        let cursors = OutcomeCursors(queue: ShardedQueue(shards, layout: ShardLayout(count: 128, id: "x")), batch: "b")
        #expect(cursors.history.all.map(\.limit) == [Int](repeating: OutcomeHistory.remembered / 128, count: 128))
        let one = OutcomeCursors(queue: ShardedQueue(shards[0]), batch: "b")
        #expect(one.history.all.map(\.limit) == [OutcomeHistory.remembered])
        let continued = OutcomeHistories(after: [5, 0, 7], limit: 24)
        #expect(continued.all.map(\.number) == [5, 0, 7] && continued.all.map(\.limit) == [8, 8, 8])
    }
}
