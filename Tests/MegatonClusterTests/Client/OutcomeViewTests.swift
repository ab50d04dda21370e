import Foundation
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

/// Outcomes that are read from any position, without workers.
@Suite(.timeLimit(.minutes(1))) struct OutcomeViewTests {
    /// Stores outcomes of a batch `b`, as scripts do.
    private func store(_ numbers: Range<Int>, in queue: JobQueue) async throws {
        let lines: [RedisArgument] = numbers.map { number in
            .buffer(ByteBuffer(bytes: JobOutcome(id: "j\(number)", source: "s", status: .done).json()))
        }
        try await queue.redis.send(["HINCRBY", .string(queue.keys.batch("b")), "outcomes", .int(lines.count)])
        try await queue.redis.send(RedisCommand([.string("RPUSH"), .string(queue.keys.results("b"))] + lines))
    }

    /// Runs the body with a queue of two shards, both on one server.
    private func withShards(_ body: (ShardedQueue) async throws -> Void) async throws {
        try await RedisServerProcess.run { (server) async throws in
            let clients = [server.client(), server.client()]
            defer { for client in clients { client.close() } }
            let shards = clients.enumerated().map { number, client in
                JobQueue(client, keys: QueueKeys(queue: "test", shard: number))
            }
            try await body(ShardedQueue(shards, layout: ShardLayout(count: 2, id: "x")))
        }
    }

    private func ids(_ page: OutcomeView.Page) throws -> [String] {
        try page.parts.flatMap(\.lines).compactMap { try JSONDecoder().decode(JobOutcome.self, from: $0).id }
    }

    @Test func aPositionHasANumberForEachShard() async throws {
        try await withShards { (queue) async throws in
            try await store(0..<3, in: queue.shards[0])
            try await store(3..<5, in: queue.shards[1])
            let view = OutcomeView(queue: queue, batch: "b")
            let first = try await view.page(from: .start, limit: 4)
            #expect(first.next.description == "4.2" && !first.isComplete)
            #expect(first.parts.map(\.shard) == [0, 1] && first.parts.map(\.first) == [1, 1])
            #expect(try ids(first) == ["j0", "j1", "j2", "j3"])
            let rest = try await view.page(from: first.next)
            #expect(rest.next.description == "4.3" && rest.isComplete && !rest.isLast)
            #expect(try ids(rest) == ["j4"])
            #expect(try ids(try await view.page(from: first.next)) == ["j4"], "nothing is deleted")
            let none = try await view.page(from: rest.next)
            #expect(none.count == 0 && none.next == rest.next && none.isComplete)
        }
    }

    @Test func aPageEndsAtItsBytes() async throws {
        try await withShards { (queue) async throws in
            try await store(0..<3, in: queue.shards[0])
            try await store(3..<5, in: queue.shards[1])
            let view = OutcomeView(queue: queue, batch: "b")
            var (position, found) = (OutcomePosition.start, [String]())
            while true {
                let page = try await view.page(from: position, maximumBytes: 1)
                #expect(page.count <= 1)
                found += try ids(page)
                position = page.next
                if page.isComplete { break }
            }
            #expect(found == ["j0", "j1", "j2", "j3", "j4"])
            let size = JobOutcome(id: "j0", source: "s", status: .done).json().count
            let page = try await view.page(from: .start, maximumBytes: 3 * size + 1)
            #expect(try ids(page) == ["j0", "j1", "j2", "j3"] && !page.isComplete, "the bytes are those of all shards")
        }
    }

    @Test func aBatchThatHasEndedHasALastPage() async throws {
        try await withShards { (queue) async throws in
            try await store(0..<3, in: queue.shards[0])
            try await store(3..<5, in: queue.shards[1])
            for shard in queue.shards {
                try await shard.redis.send(["HSET", .string(shard.keys.batch("b")), "finished", "1", "closed", "1"])
            }
            let view = OutcomeView(queue: queue, batch: "b")
            #expect(try await !view.page(from: .start, limit: 3).isLast, "the other shard was not read")
            #expect(try await view.page(from: .start).isLast)
        }
    }

    @Test func aReaderThatAcknowledgesIsNotDisturbed() async throws {
        try await withShards { (queue) async throws in
            try await store(0..<4, in: queue.shards[0])
            let view = OutcomeView(queue: queue, batch: "b")
            #expect(try await view.page(from: .start).count == 4)
            var cursors = OutcomeCursors(queue: queue, batch: "b")
            #expect(try await cursors.next().count == 4)
            #expect(try await view.page(from: .start).count == 4, "the last page is not acknowledged yet")
            #expect(try await cursors.next().isEmpty)
            let page = try await view.page(from: .start)
            #expect(page.count == 0 && page.missing == 4 && page.next[0] == 5)
        }
    }

    @Test func aBatchThatIsNotKnownHasNoOutcomes() async throws {
        try await withShards { (queue) async throws in
            let page = try await OutcomeView(queue: queue, batch: "b").page(from: .start)
            #expect(page.count == 0 && !page.counters.isKnown && !page.isLast)
        }
    }
}
