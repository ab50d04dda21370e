import Foundation
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

/// The public lists `jobs`, `jobs:high` and `jobs:bulk`, on a real Redis.
@Suite(.timeLimit(.minutes(2))) struct PublicIntakeTests {
    private func push(_ json: Data, to priority: Job.Priority, _ fixture: QueueFixture) async throws {
        let list = RedisArgument.string(fixture.keys.jobs(priority))
        try await fixture.redis.send(["LPUSH", list, .buffer(ByteBuffer(bytes: json))])
    }

    @Test func theListsHavePublicNames() {
        let keys = QueueKeys(queue: "default")
        #expect(
            Job.Priority.allCases.map(keys.jobs)
                == ["high", "normal", "bulk"].map { name in
                    name == "normal" ? "megaton:{default}:jobs" : "megaton:{default}:jobs:\(name)"
                }
        )
        // A batch may be called "high".
        #expect(keys.jobs(batch: "high") == "megaton:{default}:2:jobs:high")
    }

    @Test func aListDecidesThePriorityOfJobsThatAskForNone() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await push(QueueFixture.job("a"), to: .bulk, fixture)
            try await push(QueueFixture.job("b", priority: .high), to: .bulk, fixture)
            try await push(QueueFixture.job("c"), to: .high, fixture)
            try await push(QueueFixture.job("d"), to: .normal, fixture)
            try await fixture.admitAll(4)
            for (priority, ids) in [(Job.Priority.high, ["b", "c"]), (.normal, ["d"]), (.bulk, ["a"])] {
                let ready = try await fixture.redis.send(["LRANGE", .string(fixture.keys.ready(priority)), "0", "-1"])
                #expect((ready.array ?? []).compactMap(\.string).sorted() == ids, "\(priority)")
            }
            let claimed = try await fixture.claim(10).first { $0.id == "c" }
            let job = try Job(json: try #require(claimed).json, wasValidated: true)
            #expect(job.priority == .high, "its JSON has it too")
        }
    }

    /// Fault: eight jobs of 30 MB behind small ones were read in one call, in which Redis served no other client for
    /// three seconds.
    @Test func largeJobsAreReadOneByOne() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for index in 0..<16 { try await push(QueueFixture.job("s\(index)"), to: .normal, fixture) }
            let large = Data(repeating: UInt8(ascii: "x"), count: 2 << 20)
            for _ in 0..<10 { try await push(large, to: .normal, fixture) }
            // A round stages twice.
            try await fixture.admit()
            #expect(try await fixture.count("LLEN", fixture.keys.jobs) == 8)
        }
    }

    /// Fault: the priority counted from admission only, so that a `high` job waited behind all earlier ones.
    @Test func aHighJobPassesAFullList() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for index in 0..<500 { try await push(QueueFixture.job("n\(index)"), to: .normal, fixture) }
            for index in 0..<500 { try await push(QueueFixture.job("b\(index)"), to: .bulk, fixture) }
            try await push(QueueFixture.job("h"), to: .high, fixture)
            try await fixture.admit(window: 64)
            #expect(try await fixture.claim(1).map(\.id) == ["h"])
            let next = try await fixture.claim(20).map { $0.id.prefix(1) }
            #expect(next.count { $0 == "n" } == 4 * next.count { $0 == "b" }, "\(next)")
        }
    }
}
