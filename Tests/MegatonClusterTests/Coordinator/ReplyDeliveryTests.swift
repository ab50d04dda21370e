import Foundation
import Logging
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
            let count = 100
            for number in 0..<count {
                for list in ["away", "here"] {
                    let entry = Data("60\0\(list)\0id\0\(number)".utf8)
                    try await client.send(["RPUSH", .string(queue.keys.replies), .buffer(ByteBuffer(bytes: entry))])
                }
            }
            let slot = try #require(try await cluster.send(["CLUSTER", "KEYSLOT", "away"], port: cluster.ports[0]).int)
            let masters = cluster.ports.prefix(3)
            for port in masters { try await cluster.send(["CLUSTER", "DELSLOTS", .int(slot)], port: port) }
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let delivery = ReplyDelivery(queue: queue, name: "me", epoch: epoch, logger: logger)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    await delivery.run { try? await Task.sleep(for: .milliseconds(10)) }
                }
                func read(_ list: String) async throws -> [Int] {
                    var numbers: [Int] = []
                    for _ in 0..<count {
                        let reply = try await reader.send(["BLPOP", .string(list), "15"]).array ?? []
                        numbers.append(reply.last?.string.flatMap { Int($0) } ?? -1)
                    }
                    return numbers
                }
                #expect(try await read("here") == Array(0..<count))
                try await cluster.send(["CLUSTER", "ADDSLOTS", .int(slot)], port: masters[0])
                #expect(try await read("away") == Array(0..<count), "they stay in order")
                group.cancelAll()
            }
            #expect(try await queue.outbox(limit: 1, name: "me", epoch: epoch)?.entries.isEmpty == true)
        }
    }

    @Test func aListGoesOnWithTheFirstOutcomeThatWasMoved() {
        var (lists, now) = (AwayLists(), ContinuousClock.now)
        let (first, second) = (Data("1".utf8), Data("2".utf8))
        func waits(_ entry: Data, list: String = "l", outbox: Int = 9) -> Bool {
            lists.mustWait(list, with: entry, outbox: outbox, at: now)
        }
        #expect(!waits(first))
        lists.failed("l", first: first, at: now)
        #expect(!waits(second, list: "other"))
        #expect(waits(first), "it is tried again after a pause")
        now += AwayLists.pause
        #expect(waits(second), "it comes later")
        #expect(!waits(first))
        #expect(!waits(second), "in the same step")
        lists.failed("l", first: first, at: now)
        now += AwayLists.pause
        #expect((0..<4).map { _ in waits(second, outbox: 3) } == [true, true, true, false], "the first one is gone")
    }

    @Test func anOutboxIsStuckIfAllOfItHasMoved() {
        var lists = AwayLists()
        let steps = [
            (64, 130), (63, 130),  // One was delivered.
            (64, 129), (64, 129), (64, 129), (64, 129), (0, 1),
        ]
        let areStuck = steps.map { lists.isStuck(moved: $0.0, of: 64, outbox: $0.1) }
        #expect(areStuck == [false, false, false, false, true, false, false])
    }
}
