import Foundation
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

/// The jobs that workers have claimed, and the newest dead letters, as the dashboard shows them.
@Suite(.timeLimit(.minutes(2))) struct LeasedJobTests {
    @Test func anEntryIsRead() throws {
        let job = try #require(LeasedJob("b/1", meta: "3+1|0|host:1:a|2@d1@h.test:443!|b"))
        #expect(job.key == JobKey(batch: "b", id: "1") && job.worker == "host:1:a")
        #expect(job.attempt == 2 && job.host == "h.test:443")
        #expect(LeasedJob("1", meta: "1|0|w|2|")?.host == nil)
        for other in ["", "what", "x|0|w|2|", "1|0||2|"] { #expect(LeasedJob("1", meta: other) == nil, "\(other)") }
    }

    @Test func claimedJobsHaveTheirWorker() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let inspector = Inspector(queue: fixture.queue, cache: fixture.redis)
            #expect(try await inspector.leasedJobs(limit: 10).isEmpty)
            try await fixture.push(QueueFixture.job("a"), QueueFixture.job("b"))
            try await fixture.admitAll(2)
            let claimed = try await fixture.claim(worker: "w1")
            let leased = try await inspector.leasedJobs(limit: 10)
            #expect(Set(leased.map(\.key.text)) == Set(claimed.map(\.key.text)) && !leased.isEmpty)
            #expect(leased.allSatisfy { $0.worker == "w1" && $0.attempt == 1 })
            #expect(try await inspector.leasedJobs(limit: 1).count == 1)
        }
    }

    @Test func theNewestDeadLettersAreRead() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for number in 1...5 {
                let id = RedisArgument.string("d\(number)")
                try await fixture.redis.send(["ZADD", .string(fixture.keys.dead), .int(number * 1000), id])
                let letter = #"{"code":"x","message":"m","attempts":1,"job":"{}"}"#
                try await fixture.redis.send(["HSET", .string(fixture.keys.deadInfo), id, .string(letter)])
            }
            let inspector = Inspector(queue: fixture.queue, cache: fixture.redis)
            let newest = try await inspector.newestDeadLetters(limit: 2)
            #expect(newest.total == 5 && newest.letters.map(\.id) == ["d5", "d4"])
        }
    }

    /// Lists of failures show sources to readers that may not have their secrets, and on terminals.
    @Test(
        arguments: [
            (#"{"source":"https://user:word@h.test/a.jpg?sig=1"}"#, "https://h.test/a.jpg?…"),
            (#"{"source":"DATA:image/png;base64,AAAA"}"#, "data:…"), ("no job", nil), (#"{"sources":[]}"#, nil),
            (#"{"source":"https://\#(String(repeating: "u", count: 70_000)):word@h.test/a.jpg"}"#, "https:…"),
        ] as [(String, String?)]
    )
    func aShownSourceHasNoSecret(_ job: String, _ shown: String?) throws {
        let json = try JSONEncoder().encode(DeadLetter.Content(code: "x", message: "", job: job))
        let letter = DeadLetter(key: "1", died: 1, json: .bulk(ByteBuffer(bytes: json)))
        #expect(letter.shownSource == shown)
    }

    @Test func theMemoryOfACacheIsRead() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let inspector = Inspector(queue: fixture.queue, cache: fixture.redis)
            let memory = await inspector.cacheMemory()
            #expect(memory.count == 1 && memory.first?.problem == nil)
            let used = try #require(memory.first?.used)
            #expect(used > 0 && memory.first?.isFull == false)
        }
    }
}
