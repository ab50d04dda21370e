import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

/// Jobs that name a list for their outcome, on a real Redis.
@Suite(.timeLimit(.minutes(2))) struct ReplyTests {
    private static let list = "client:outcomes"

    private func job(_ id: String, batch: String? = nil, list: String = ReplyTests.list, ttl: Int? = nil) -> Data {
        var job = Job(id: id, source: "https://example.org/\(id).jpg", batch: batch)
        job.reply = JobReply(list: list, ttl: ttl)
        return job.json()
    }

    /// Ends the claimed jobs as a worker does.
    private func end(_ fixture: QueueFixture, _ status: JobOutcome.Status = .done) async throws {
        for job in try await fixture.claim(99) {
            let failure = status == .failed ? JobOutcome.Failure(code: "x", message: "why", retryable: false) : nil
            let outcome = JobOutcome(id: job.id, source: job.id, status: status, error: failure)
            let dead = failure.map { DeadLetter.Content(code: $0.code, message: $0.message, job: "{}") }
            let parsed = try Job(json: job.json, wasValidated: true)
            let end = JobCompletion(job: job, outcome: outcome, dead: dead, of: parsed, replyingTo: parsed.reply)
            #expect(try await fixture.queue.settle([end], worker: "w1") == [.ok])
        }
    }

    private func outcomes(_ fixture: QueueFixture) async throws -> [JobOutcome] {
        let lines = try await fixture.redis.send(["LRANGE", .string(Self.list), "0", "-1"]).array ?? []
        return try lines.compactMap(\.string).map { try JSONDecoder().decode(JobOutcome.self, from: Data($0.utf8)) }
    }

    @Test func eachEndHasAnOutcomeInTheList() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(job("a"), job("b", batch: "spring"))
            try await fixture.admitAll(2)
            try await end(fixture)
            try await fixture.push(job("c"))
            try await fixture.admitAll(1)
            try await end(fixture, .failed)
            #expect(try await outcomes(fixture).isEmpty, "only the leader writes the list")
            try await fixture.moveOutcomes()
            let all = try await outcomes(fixture)
            #expect(Set(all.prefix(2).map(\.id)) == ["a", "b"] && all.last?.id == "c", "in the order of their ends")
            #expect(all.map(\.status) == [.done, .done, .failed] && all.last?.error?.code == "x")
            #expect(try await fixture.count("EXISTS", fixture.keys.replies) == 0)
            #expect(try await fixture.statistic("reply_bytes") == 0)
            #expect(try await fixture.statistic("outcome_bytes") == 0)
            let ttl = try await fixture.count("TTL", Self.list)
            #expect((3000...3600).contains(ttl), "\(ttl)")
            try await fixture.moveOutcomes()
            #expect(try await outcomes(fixture).count == 3, "nothing is delivered twice")
        }
    }

    /// Jobs that never run: invalid ones, duplicates, and those of a cancelled batch.
    @Test func jobsThatAreNotAdmittedHaveOutcomesToo() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let reply = #""reply":{"list":"client:outcomes","ttl":60}"#
            try await fixture.push(
                job("a", batch: "b"),
                job("a", batch: "b"),
                Data(#"{"id":"bad","source":"https://h/a","sizes":1,\#(reply)}"#.utf8)
            )
            while case .admitted = try await fixture.admit() {}
            try await fixture.redis.send(["SADD", .string(fixture.keys.cancelled), "gone"])
            try await fixture.push(job("late", batch: "gone"))
            while case .admitted = try await fixture.admit() {}
            try await fixture.moveOutcomes()
            let all = try await outcomes(fixture)
            let statuses = Dictionary(all.map { ($0.id ?? "", $0.status) }) { first, _ in first }
            #expect(statuses == ["a": .deduplicated, "bad": .failed, "late": .cancelled])
            #expect(all.first { $0.id == "bad" }?.error?.code == "invalid_job")
            try await end(fixture)
            try await fixture.moveOutcomes()
            #expect(try await outcomes(fixture).last?.status == .done, "the first job ends when it has run")
        }
    }

    @Test func aPackHasAnOutcomeForEachSource() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let reply = #""reply":{"list":"client:outcomes"}"#
            let sources = #""sources":["https://h/a.jpg","https://h/b.jpg",{"id":"x","source":""}]"#
            try await fixture.push(Data(#"{"id":"p",\#(reply),\#(sources)}"#.utf8))
            while case .admitted = try await fixture.admit() {}
            let active = try #require(try await fixture.claim().first)
            let pack = try Pack(json: active.json)
            var run = PackRun(pack, of: active)
            for source in pack.sources { run.end(JobOutcome(id: source.id, source: source.source, status: .done)) }
            let settlement = run.nextSettlement(isLast: true, at: .now)
            let known = pack.sources.count
            #expect(try await fixture.queue.settle(settlement, of: active, known: known, worker: "w1") == .ok)
            try await fixture.moveOutcomes()
            let all = try await outcomes(fixture)
            #expect(Set(all.map(\.id)) == ["p.1", "p.2", "x"] && all.count { $0.status == .failed } == 1, "\(all)")
        }
    }

    @Test func aListKeepsNoMoreThanItsLimits() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let outcomes = (0..<20).map { Data(String(repeating: "\($0 % 10)", count: 100).utf8) }
            let queue = fixture.queue
            #expect(try await queue.deliver(outcomes, to: "l", ttl: 9, listBytes: 1000) == 10)
            #expect(try await fixture.count("LLEN", "l") == 10)
            #expect(try await queue.deliver([outcomes[0]], to: "m", ttl: 9, listBytes: 1) == 0, "one stays")
            let first = RedisArgument.string("n")
            for _ in 0..<100 {
                let part = RedisCommand(["RPUSH", first] + (0..<1000).map { _ in "x" })
                try await fixture.redis.send(part)
            }
            #expect(try await queue.deliver([Data("y".utf8)], to: "n", ttl: 9, listBytes: 1 << 30) == 1)
            #expect(try await fixture.count("LLEN", "n") == JobQueue.replyLimit)
        }
    }

    /// A key of another type loses its outcomes, and holds up no other list.
    @Test func aListThatIsNoneHoldsUpNoOther() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.redis.send(["SET", "client:text", "1"])
            try await fixture.push(job("a", list: "client:text"), job("b"))
            try await fixture.admitAll(2)
            try await end(fixture)
            try await fixture.moveOutcomes()
            #expect(try await outcomes(fixture).map(\.id) == ["b"])
            #expect(try await fixture.statistic("replies_dropped") == 1)
        }
    }

    @Test func outcomesWithoutRoomAreDroppedAndCounted() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.redis.send(["HSET", .string(fixture.keys.stat), "outcome_limit", "10"])
            try await fixture.push(job("a"))
            try await fixture.admitAll(1)
            try await end(fixture)
            #expect(try await fixture.count("EXISTS", fixture.keys.replies) == 0)
            #expect(try await fixture.statistic("replies_dropped") == 1)
            #expect(try await fixture.statistic("done") == 1, "the job has ended")
        }
    }

    /// After a failover the outbox may be an earlier one: what was not delivered stays.
    @Test func onlyWhatWasReadIsRemoved() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(job("a"))
            try await fixture.admitAll(1)
            try await end(fixture)
            let queue = fixture.queue
            let other = [Data("another entry".utf8)]
            try await queue.removeReplies(other, lost: 0, name: "leader", epoch: fixture.epoch)
            #expect(try await fixture.count("LLEN", fixture.keys.replies) == 1)
            let entries = try await queue.outbox(limit: 9, name: "leader", epoch: fixture.epoch)?.entries ?? []
            #expect(try await queue.outbox(limit: 9, name: "other", epoch: fixture.epoch) == nil)
            await #expect(throws: RedisError.self) {
                try await queue.removeReplies(entries, lost: 0, name: "other", epoch: fixture.epoch)
            }
            try await queue.removeReplies(entries, lost: 0, name: "leader", epoch: fixture.epoch)
            #expect(try await fixture.count("LLEN", fixture.keys.replies) == 0)
        }
    }

    @Test(arguments: [
        (#"{}"#, "list"), (#"{"list":""}"#, "1 to 256 bytes"), (#"{"list":"megaton:{a}:jobs"}"#, "megaton:"),
        (#"{"list":"a\u0000b"}"#, "NUL"), (#"{"list":"l","ttl":0}"#, "604800"), (#"{"list":"l","tll":9}"#, "ttl"),
        (#"{"list":"l","ttl":604801}"#, "604800"), (#""l""#, "list"), (#"{"list":7}"#, "list"),
    ])
    func anImpossibleReplyIsNamed(_ reply: String, _ words: String) {
        let json = Data(#"{"source":"https://h/a","reply":\#(reply)}"#.utf8)
        #expect { try Job(json: json) } throws: { error in
            let message = (error as? JobError)?.message ?? ""
            return message.hasPrefix("reply") && message.contains(words)
        }
    }

    @Test func aReplyIsPartOfTheWireFormAndNotOfTheWork() throws {
        let read = try Job(json: job("a", ttl: 60))
        #expect(read.reply == JobReply(list: Self.list, ttl: 60))
        #expect(try Job(json: read.json()) == read)
        let validator = JobValidator(presets: [:])
        let plain = validator.validate(Data(#"{"id":"a","source":"https://example.org/a.jpg"}"#.utf8), batch: "b")
        let replying = validator.validate(job("a"), batch: "b")
        #expect(plain.digest == replying.digest && plain.content == replying.content && plain.reply == nil)
        #expect(replying.reply?.target == "3600\0\(Self.list)")
    }
}
