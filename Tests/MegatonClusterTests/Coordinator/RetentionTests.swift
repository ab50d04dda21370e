import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCluster

/// How ended batches and dead letters leave Redis.
@Suite(.timeLimit(.minutes(2))) struct RetentionTests {
    private func keeper(
        _ fixture: QueueFixture,
        batches: Duration = .seconds(60),
        _ retention: Retention = Retention()
    ) -> RetentionKeeper {
        RetentionKeeper(
            queue: fixture.queue,
            batches: batches,
            retention: retention,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    private func kill(_ range: Range<Int>, letter bytes: Int = 100, _ fixture: QueueFixture) async throws {
        for number in range { try await fixture.push(QueueFixture.job("j\(number)")) }
        try await fixture.admitAll(range.count)
        for job in try await fixture.claim(1000) {
            let text = String(repeating: "x", count: bytes)
            let dead = DeadLetter.Content(code: "x", message: "why", job: text)
            let outcome = JobOutcome(id: job.id, source: job.id, status: .failed)
            let end = JobCompletion(job: job, outcome: outcome, dead: dead, counters: [:])
            #expect(try await fixture.queue.settle([end], worker: "w1") == [.ok])
        }
    }

    private func bytes(_ fixture: QueueFixture) async throws -> Int {
        try await fixture.redis.send(["HGET", .string(fixture.keys.stat), "dead_bytes"]).int ?? 0
    }

    /// Fault: a rate of more than 100 ended batches a minute filled Redis.
    @Test func endedBatchesAreForgottenAtAnyRate() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for number in 0..<350 {
                _ = try await fixture.queue.submit(
                    [],
                    to: "b\(number)",
                    first: 0,
                    isLast: true,
                    policy: .init(keepsLedger: true),
                    submitter: "me"
                )
            }
            try await fixture.submit([QueueFixture.job("j", batch: "open")], to: "open")
            await keeper(fixture).tidy(.init(deadLetters: 1000, outcomes: 1000))
            #expect(try await fixture.count("ZCARD", fixture.keys.batches) == 351, "they are young")
            // The end is a minute ago, by the clock of Redis.
            let names = try await fixture.redis.send(["ZRANGE", .string(fixture.keys.ended), "0", "-1"]).array ?? []
            for name in names.compactMap(\.string) {
                let past: RedisArgument = "1000"
                try await fixture.redis.send(["ZADD", .string(fixture.keys.ended), past, .string(name)])
                if name != "open" {
                    try await fixture.redis.send(["HSET", .string(fixture.keys.batch(name)), "finished", past])
                }
            }
            await keeper(fixture).tidy(.init(deadLetters: 1000, outcomes: 1000))
            let left = try await fixture.redis.send(["ZRANGE", .string(fixture.keys.batches), "0", "-1"]).array
            #expect(left?.compactMap(\.string) == ["open"], "a job of it is left")
            #expect(try await fixture.redis.send(["KEYS", "*batch:b*"]).array?.isEmpty == true)
            let next = try await fixture.redis.send(["ZSCORE", .string(fixture.keys.ended), "open"]).string ?? ""
            #expect(try #require(Double(next)) > 1_000_000, "it is looked at again later")
        }
    }

    /// Fault: 98 letters of 700 KB filled a Redis of 64 MB, and the queue stopped.
    @Test func deadLettersAreLimitedByBytes() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let limits = Retention.Limits(deadLetters: 50_000, outcomes: 1000)
            try await fixture.queue.expireDeadLetters(olderThan: .seconds(60), limits: limits, limit: 10)
            try await kill(0..<30, letter: 5_000, fixture)
            let letters = try await fixture.queue.deadLetters(offset: 0, limit: 100)
            #expect((5...9).contains(letters.count) && letters.last?.id == "j29", "\(letters.map(\.id))")
            #expect(try await bytes(fixture) <= 50_000)
            #expect(try await fixture.queue.droppedDeadLetters() == 30 - letters.count)
            #expect(try await fixture.count("HLEN", fixture.keys.deadInfo) == letters.count)
            // A letter beyond the limit is kept, as the only one.
            try await kill(30..<31, letter: 60_000, fixture)
            #expect(try await fixture.queue.deadLetters(offset: 0, limit: 100).map(\.id) == ["j30"])
            #expect(try await fixture.queue.drop(try await fixture.queue.deadLetters(offset: 0, limit: 9)) == 1)
            #expect(try await bytes(fixture) == 0)
        }
    }

    @Test func deadLettersAreDeletedAfterTheirTime() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await kill(0..<600, fixture)
            let old = try await fixture.redis.send(["ZRANGE", .string(fixture.keys.dead), "0", "-1"]).array ?? []
            for id in old.compactMap(\.string) where id != "j7" {
                try await fixture.redis.send(["ZADD", .string(fixture.keys.dead), "1000", .string(id)])
            }
            await keeper(fixture).tidy(.init(deadLetters: 1_000_000, outcomes: 1000))
            #expect(try await fixture.queue.deadLetters(offset: 0, limit: 9).map(\.id) == ["j7"])
            #expect(try await fixture.count("HLEN", fixture.keys.deadInfo) == 1)
        }
    }

    /// Fault: a page of batches with unfinished jobs kept those behind it for another second.
    @Test func batchesInUseDoNotKeepThoseBehindThem() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for number in 0..<250 {
                let name = "b\(number)"
                try await fixture.redis.send(["HSET", .string(fixture.keys.batch(name)), "total", "1"])
                try await fixture.redis.send(["ZADD", .string(fixture.keys.ended), .int(1000 + number), .string(name)])
            }
            try await fixture.redis.send(["HSET", .string(fixture.keys.batch("last")), "finished", "2000"])
            try await fixture.redis.send(["ZADD", .string(fixture.keys.ended), "2000", "last"])
            await keeper(fixture).tidy(.init(deadLetters: 1000, outcomes: 1000))
            #expect(try await fixture.count("EXISTS", fixture.keys.batch("last")) == 0)
            #expect(try await fixture.count("ZCARD", fixture.keys.ended) == 250)
        }
    }

    /// Fault: if open batches had the outcomes, each second looked through all batches.
    @Test func aStepLooksForTheOutcomesOfABoundedNumberOfBatches() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let now = RedisArgument.string(String(try await fixture.queue.now()))
            let entries = (0..<1500).flatMap { [now, RedisArgument.string("b\($0)")] }
            try await fixture.redis.send(RedisCommand(["ZADD", .string(fixture.keys.ended)] + entries))
            try await fixture.redis.send(["HSET", .string(fixture.keys.stat), "outcome_bytes", "1000"])
            let limits = Retention.Limits(deadLetters: 1000, outcomes: 100)
            let offset = await keeper(fixture).tidy(limits).offset
            #expect(offset == RetentionKeeper.ledgersInAStep)
            let next = await keeper(fixture).tidy(limits, offset: offset).offset
            #expect(next == 0, "the next step begins again")
        }
    }

    @Test func aJobThatIsAdmittedAgainFreesTheBytesOfItsLetter() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await kill(0..<3, fixture)
            let before = try await bytes(fixture)
            #expect(before > 300)
            try await fixture.push(QueueFixture.job("j1"))
            try await fixture.admit()
            #expect(try await fixture.queue.deadCount() == 2)
            #expect(try await bytes(fixture) < before)
        }
    }

    /// A worker that takes over has no options for this, and must not delete what the coordinator keeps.
    @Test func aFallbackKeepsWhatTheLastCoordinatorKept() async throws {
        try await QueueFixture.run { (fixture) async throws in
            var fallback = keeper(fixture)
            fallback.isFallback = true
            #expect(try await fallback.configured().0.batches == .seconds(60), "there was no leader")
            var own = Retention()
            (own.deadLetters, own.deadLetterBytes, own.outcomeBytes) = (.seconds(99), 5_000_000, 6_000_000)
            let coordinator = keeper(fixture, batches: .seconds(600), own)
            let published = try await coordinator.configured().1
            await coordinator.tidy(published)
            let (taken, limits) = try await fallback.configured()
            #expect(taken.batches == .seconds(600) && taken.retention == own)
            #expect(limits == .init(deadLetters: 5_000_000, outcomes: 6_000_000))
            #expect(try await coordinator.configured().0.batches == .seconds(600))
        }
    }

    /// Fault: while one kind of entry could not be deleted, the others filled Redis, and no log said so.
    @Test func eachKindIsDeletedByItself() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.redis.send(["SET", .string(fixture.keys.dead), "text"])
            try await fixture.redis.send(["HSET", .string(fixture.keys.batch("b")), "finished", "1000"])
            try await fixture.redis.send(["ZADD", .string(fixture.keys.ended), "1000", "b"])
            let limits = Retention.Limits(deadLetters: 1000, outcomes: 1000)
            let step = await keeper(fixture).tidy(limits)
            #expect(Set(step.errors.keys) == [.deadLetters])
            #expect(try await fixture.count("EXISTS", fixture.keys.batch("b")) == 0)
            try await fixture.redis.send(["DEL", .string(fixture.keys.dead)])
            try await fixture.redis.send(["SET", .string(fixture.keys.ended), "text"])
            // Its time is over, by the clock of Redis.
            try await fixture.redis.send(["ZADD", .string(fixture.keys.dead), "1000", "j"])
            let next = await keeper(fixture).tidy(limits, offset: 7)
            #expect(Set(next.errors.keys) == [.batches] && next.offset == 0)
            #expect(try await fixture.queue.deadCount() == 0)
        }
    }

    @Test func anErrorThatLastsIsOneWarning() {
        let lines = LogLines()
        var failures = RetentionFailures(logger: lines.logger())
        let error = RedisError(reply: "WRONGTYPE x")
        for _ in 1..<RetentionFailures.limit { failures.note(error, of: .batches) }
        failures.note(nil, of: .batches)
        #expect(lines.all.isEmpty, "a failover is none")
        for _ in 0..<2 {
            for _ in 0..<10 {
                failures.note(error, of: .batches)
                failures.note(nil, of: .outcomes)
            }
            #expect(failures.contains(.batches) && !failures.contains(.outcomes))
            failures.note(nil, of: .batches)
        }
        #expect(lines.levels == ["warning", "info", "warning", "info"])
    }

    @Test func theLimitsFitIntoASmallRedis() {
        #expect(Retention().limits(memory: 64 << 20) == .init(deadLetters: 4 << 20, outcomes: 16 << 20))
        // Fault: maxmemory was 1 for some seconds, as a leader began, and the outcomes of later batches were deleted.
        #expect(Retention().limits(memory: 1) == .init(deadLetters: 1 << 20, outcomes: 4 << 20))
        #expect(Retention().limits(memory: 0) == .init(deadLetters: 32 << 20, outcomes: 1 << 30))
        var own = Retention()
        (own.deadLetterBytes, own.outcomeBytes) = (1 << 20, 2 << 20)
        #expect(own.limits(memory: 1 << 40) == .init(deadLetters: 1 << 20, outcomes: 2 << 20))
    }
}
