import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

@Suite(.timeLimit(.minutes(2))) struct ReplyDeliveryTests {
    /// Fault: with one list on a slot that no node served, the replies of all clients waited until it was back.
    @Test func aListThatCannotBeReachedHoldsUpNoOther() async throws {
        try await RedisClusterProcesses.run(settings: ["cluster-require-full-coverage no"]) { cluster in
            let client = try cluster.client(commandTimeout: .seconds(2))
            let reader = try cluster.client()
            defer { for client in [client, reader] { client.close() } }
            let queue = JobQueue(client, keys: QueueKeys(queue: "test"))
            let epoch = try #require(try await Leadership(queue: queue, name: "me", lease: .seconds(60)).tryToLead())
            let (count, pushed) = (100, AsyncSignal())
            func push(_ list: String, _ number: Int) async throws {
                let entry = Data("60\0\(list)\0id\0\(number)".utf8)
                let stat = RedisArgument.string(queue.keys.stat)
                _ = try await client.pipeline([
                    ["RPUSH", .string(queue.keys.replies), .buffer(ByteBuffer(bytes: entry))],
                    ["HINCRBY", stat, "reply_bytes", .int(entry.count)],
                    ["HINCRBY", stat, "outcome_bytes", .int(entry.count)],
                ])
                pushed.signal()
            }
            for number in 0..<count {
                for list in ["away", "here"] { try await push(list, number) }
            }
            let slot = try #require(try await cluster.send(["CLUSTER", "KEYSLOT", "away"], port: cluster.ports[0]).int)
            let masters = cluster.ports.prefix(3)
            for port in masters { try await cluster.send(["CLUSTER", "DELSLOTS", .int(slot)], port: port) }
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let delivery = ReplyDelivery(queue: queue, name: "me", epoch: epoch, logger: logger)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await delivery.run { await pushed.wait() } }
                func read(_ list: String) async throws -> [Int] {
                    var numbers: [Int] = []
                    for _ in 0..<count {
                        let reply = try await reader.send(["BLPOP", .string(list), "15"]).array ?? []
                        numbers.append(reply.last?.string.flatMap { Int($0) } ?? -1)
                    }
                    return numbers
                }
                #expect(try await read("here") == Array(0..<count))
                #expect(try await queue.awayLists() == ["away"])
                for number in 0..<count {
                    for list in ["here", "away"] { try await push(list, count + number) }
                }
                #expect(try await read("here") == Array(count..<2 * count))
                try await cluster.send(["CLUSTER", "ADDSLOTS", .int(slot)], port: masters[0])
                let first = try await read("away")
                #expect(try await first + read("away") == Array(0..<2 * count), "they stay in order")
                // The last one was read before the leader knew that it had arrived.
                while try await !queue.awayLists().isEmpty { await Task.yield() }
                try await push("away", 7)
                #expect(try await reader.send(["BLPOP", "away", "15"]).array?.last?.string == "7")
                while try await queue.outbox(limit: 1, name: "me", epoch: epoch)?.entries.isEmpty != true {
                    await Task.yield()
                }
                group.cancelAll()
            }
            let bytes = try await client.send(["HMGET", .string(queue.keys.stat), "reply_bytes", "outcome_bytes"])
            #expect(bytes.array?.map(\.int) == [0, 0])
        }
    }
}
