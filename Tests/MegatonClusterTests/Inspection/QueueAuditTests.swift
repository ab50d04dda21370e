import Foundation
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

/// Inconsistencies that no script leaves behind, made by hand: each is found and repaired, and the job runs to its end
/// once.
@Suite(.timeLimit(.minutes(2))) struct QueueAuditTests {
    private func audit(_ fixture: QueueFixture, repair: Bool = false) async throws -> QueueAudit.Report {
        try await QueueAudit(queue: fixture.queue).run(repair: repair)
    }

    /// Finds exactly these inconsistencies without changing anything, and repairs all of them at once.
    private func findAndMend(
        _ faults: [QueueAudit.Kind: Int],
        _ fixture: QueueFixture,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        #expect(try await audit(fixture).faults == faults, sourceLocation: sourceLocation)
        let report = try await audit(fixture, repair: true)
        #expect(report.faults == faults, "looking changed something", sourceLocation: sourceLocation)
        #expect(report.repaired == report.count, sourceLocation: sourceLocation)
        let after = try await audit(fixture, repair: true)
        #expect(after.count == 0 && after.repaired == 0, sourceLocation: sourceLocation)
    }

    /// Checks that the job of the batch `b` can be claimed once, ends, and ends its batch.
    private func runsOnce(
        _ id: String,
        _ fixture: QueueFixture,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let jobs = try await fixture.claim(10)
        #expect(jobs.map(\.id) == [id], sourceLocation: sourceLocation)
        for job in jobs { #expect(try await fixture.finish(job) == .ok, sourceLocation: sourceLocation) }
        try await ended(id, fixture, sourceLocation: sourceLocation)
    }

    private func ended(
        _ id: String,
        _ fixture: QueueFixture,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        #expect(try await fixture.claim(10).isEmpty, sourceLocation: sourceLocation)
        #expect(try await fixture.places(id).isEmpty, sourceLocation: sourceLocation)
        #expect(try await fixture.queue.alive() == 0, sourceLocation: sourceLocation)
        let batch = try await fixture.batch("b")
        #expect(batch["done"] == 1 && batch.ended == 1 && batch.isFinished, sourceLocation: sourceLocation)
        #expect(try await audit(fixture).count == 0, sourceLocation: sourceLocation)
    }

    /// A queue with one ready job of the batch `b`.
    private func withJob(_ body: (QueueFixture) async throws -> Void) async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.submit([QueueFixture.job("a", batch: "b")], to: "b", policy: .init(keepsLedger: true))
            try await fixture.admit()
            try await body(fixture)
        }
    }

    private func putOff(_ job: ActiveJob, _ fixture: QueueFixture, by delay: Duration = .seconds(600)) async throws {
        let result = try await fixture.queue.retry(
            job,
            worker: "w1",
            after: delay,
            countsAttempt: true,
            counters: [:]
        )
        #expect(result == .ok)
    }

    private func far(_ key: String, _ id: String, _ fixture: QueueFixture) async throws {
        try await fixture.redis.send(["ZADD", .string(key), "9999999999999", .string(id)])
    }

    private func ready(_ fixture: QueueFixture, _ priority: Job.Priority = .normal) -> RedisArgument {
        .string(fixture.keys.ready(priority))
    }

    private func ledger(_ fixture: QueueFixture) async throws -> [JobOutcome] {
        try await fixture.results(of: "b", kept: 0, limit: 10).map {
            try JSONDecoder().decode(JobOutcome.self, from: $0)
        }
    }

    // MARK: - A consistent queue

    @Test func aQueueInAllStatesHasNoFaults() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for id in ["high", "a", "b", "c", "d"] {
                try await fixture.push(QueueFixture.job(id, priority: id == "high" ? .high : .normal))
            }
            try await fixture.admit()
            let jobs = try await fixture.claim(4)
            try await putOff(jobs[0], fixture)
            #expect(try await fixture.finish(jobs[1], .failed) == .ok)
            // Its worker is gone: an expired lease is left to the sweep.
            try await fixture.expire(jobs[2])
            // Staged and not admitted, by this leader and by an earlier one.
            for epoch in [fixture.epoch, fixture.epoch + 5] {
                try await fixture.redis.send(["SADD", .string(fixture.keys.stages), .int(epoch)])
                try await fixture.redis.send(["RPUSH", .string(fixture.keys.stage(epoch: epoch)), "\0{}"])
            }
            try await fixture.submit([QueueFixture.job("e", batch: "later")], to: "later")
            let report = try await audit(fixture)
            #expect(report.faults.isEmpty && report.examples.isEmpty && report.isComplete)
            #expect(report.examined == 4, "ready, two running and one put off")
        }
    }

    @Test func anEmptyStageOfTheLeaderIsNoFault() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.redis.send(["SADD", .string(fixture.keys.stages), .int(fixture.epoch)])
            #expect(try await audit(fixture, repair: true).count == 0)
            #expect(try await fixture.count("SCARD", fixture.keys.stages) == 1)
        }
    }

    @Test func aBusyQueueHasNoFaultsAndIsNotDisturbed() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let rounds = 100
            async let work: Void = churn(fixture, rounds)
            var audits: [QueueAudit.Report] = []
            for _ in 0..<20 { audits.append(try await audit(fixture, repair: true)) }
            try await work
            #expect(audits.allSatisfy { $0.count == 0 && $0.repaired == 0 })
            let done = try await fixture.redis.send(["HGET", .string(fixture.keys.stat), "done"]).int
            #expect(done == 3 * rounds, "each ended once")
        }
    }

    private func churn(_ fixture: QueueFixture, _ rounds: Int) async throws {
        for round in 0..<rounds {
            for letter in ["a", "b", "c"] { try await fixture.push(QueueFixture.job("\(letter)\(round)")) }
            try await fixture.admit()
            for (index, job) in try await fixture.claim(10).enumerated() {
                if index == 0 && job.attempt == 1 {
                    try await putOff(job, fixture, by: .zero)
                } else {
                    #expect(try await fixture.finish(job) == .ok)
                }
            }
        }
        while try await fixture.queue.alive() > 0 {
            for job in try await fixture.claim(10) { #expect(try await fixture.finish(job) == .ok) }
        }
    }

    // MARK: - Jobs in no place, or in two

    @Test func anOrphanBecomesReady() async throws {
        try await withJob { (fixture) async throws in
            try await fixture.redis.send(["DEL", ready(fixture), .string(fixture.keys.wake)])
            #expect(
                try await audit(fixture).examples
                    == [.init(id: "a", what: "it has a body and a meta but is in no list (batch b)")]
            )
            try await findAndMend([.orphan: 1], fixture)
            #expect(try await fixture.places("a") == ["ready"])
            #expect(try await fixture.count("LLEN", fixture.keys.wake) == 1, "a worker is woken for it")
            try await runsOnce("a", fixture)
        }
    }

    @Test func manyOrphansAreAllMendedAndSomeAreShown() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let ids = (0..<250).map { "j\($0)" }
            let replies = try await fixture.redis.pipeline(
                ids.flatMap { id -> [RedisCommand] in
                    let json = RedisArgument.buffer(ByteBuffer(bytes: QueueFixture.job(id)))
                    return [
                        ["HSET", .string(fixture.keys.body), .string(id), json],
                        ["HSET", .string(fixture.keys.meta), .string(id), "0|0||3|"],
                    ]
                }
            )
            #expect(replies == Array(repeating: .integer(1), count: 500))
            let report = try await audit(fixture, repair: true)
            #expect(report.faults == [.orphan: 250] && report.repaired == 250)
            #expect(report.examined == 250 && report.examples.count == 20)
            let claimed = try await fixture.claim(500).map(\.id)
            #expect(claimed.count == 250 && Set(claimed) == Set(ids))
            #expect(try await audit(fixture).count == 0)
        }
    }

    @Test func aLeaseWinsOverReadyAndDelay() async throws {
        try await withJob { (fixture) async throws in
            let job = try await fixture.claim()[0]
            try await fixture.redis.send(["LPUSH", ready(fixture), "b/a"])
            try await findAndMend([.twoStates: 1], fixture)
            try await far(fixture.keys.delay, "b/a", fixture)
            try await findAndMend([.twoStates: 1], fixture)
            try await fixture.redis.send(["LPUSH", ready(fixture, .bulk), "b/a", "b/a"])
            try await far(fixture.keys.delay, "b/a", fixture)
            let place = "it is in two states: lease + delay + ready + ready (batch b)"
            #expect(try await audit(fixture).examples.map(\.what) == [place])
            try await findAndMend([.twoStates: 1], fixture)
            #expect(try await fixture.places("a") == ["lease"])
            #expect(try await fixture.claim(10).isEmpty)
            #expect(try await fixture.finish(job) == .ok, "its worker has noticed nothing")
            try await ended("a", fixture)
        }
    }

    @Test func aDelayWinsOverReady() async throws {
        try await withJob { (fixture) async throws in
            try await putOff(fixture.claim()[0], fixture)
            try await fixture.redis.send(["RPUSH", ready(fixture), "b/a"])
            try await findAndMend([.twoStates: 1], fixture)
            #expect(try await fixture.places("a") == ["delay"])
            try await fixture.redis.send(["ZADD", .string(fixture.keys.delay), "XX", "1", "b/a"])
            try await runsOnce("a", fixture)
        }
    }

    @Test(arguments: Job.Priority.allCases) func aJobThatIsReadyTwiceBecomesReadyOnce(_ second: Job.Priority)
        async throws
    {
        try await withJob { (fixture) async throws in
            try await fixture.redis.send(["LPUSH", ready(fixture, second), "b/a"])
            try await findAndMend([.twoStates: 1], fixture)
            #expect(try await fixture.count("LLEN", fixture.keys.ready(.normal)) == 1)
            try await runsOnce("a", fixture)
        }
    }

    // MARK: - Incomplete jobs

    @Test(arguments: [nil, "not a meta", "0|0||9|b"] as [String?]) func aBodyWithoutMetaIsBuriedAndCanBeRequeued(
        _ meta: String?
    ) async throws {
        try await withJob { (fixture) async throws in
            if let meta {
                try await fixture.redis.send(["HSET", .string(fixture.keys.meta), "b/a", .string(meta)])
            } else {
                try await fixture.redis.send(["HDEL", .string(fixture.keys.meta), "b/a"])
            }
            try await findAndMend([.withoutMeta: 1], fixture)
            #expect(try await fixture.places("a") == ["dead"])
            #expect(try await fixture.queue.alive() == 0)
            let batch = try await fixture.batch("b")
            #expect(batch["failed"] == 1 && batch.ended == 1 && batch.isFinished, "no client waits for it forever")
            let outcomes = try await ledger(fixture)
            #expect(outcomes.map(\.error?.code) == ["orphan"] && outcomes[0].source == "https://example.org/a.jpg")
            let letter = try #require(try await fixture.queue.deadLetter(id: "a"))
            #expect(letter.content.code == "orphan" && letter.content.batch == "b")
            #expect(try await fixture.queue.requeue([letter]) == 1)
            try await fixture.admit()
            let jobs = try await fixture.claim(10)
            #expect(jobs.map(\.id) == ["a"])
            #expect(try await fixture.finish(jobs[0]) == .ok)
            #expect(try await fixture.claim(10).isEmpty)
            #expect(try await audit(fixture).count == 0)
        }
    }

    /// Fault: the key stayed without an outcome, so that later jobs with it were duplicates of a job that never ended.
    @Test func theKeyOfAJobThatARepairFailsHasItsOutcome() async throws {
        try await QueueFixture.run { (fixture) async throws in
            func job(_ id: String, batch: String) -> Data {
                var job = Job(id: id, source: "https://example.org/\(id).jpg", batch: batch)
                job.idempotencyKey = "k"
                return job.json()
            }
            try await fixture.submit([job("a", batch: "b")], to: "b", policy: .init(keepsLedger: true))
            try await fixture.admit()
            try await fixture.redis.send(["HDEL", .string(fixture.keys.meta), "b/a"])
            try await findAndMend([.withoutMeta: 1], fixture)
            try await fixture.submit([job("c", batch: "d")], to: "d", policy: .init(keepsLedger: true))
            try await fixture.admit()
            let key = fixture.keys.once(IdempotencyEntry.digest(of: "k"))
            let entry = try await fixture.redis.send(["GET", .string(key)]).string
            #expect(try #require(entry).contains(#""code":"orphan""#))
            let later = try #require(try await fixture.results(of: "d", kept: 0).first)
            let outcome = try JSONDecoder().decode(JobOutcome.self, from: later)
            #expect(outcome.status == .deduplicated && outcome.error?.code == "orphan")
        }
    }

    /// Fault: jobs that a repair took out of `delay` and `holding` stayed counted there.
    @Test func bytesOfWaitingJobsDoNotIncludeThoseThatARepairRemoved() async throws {
        try await withJob { (fixture) async throws in
            func bytes() async throws -> Int {
                try await fixture.redis.send(["HGET", .string(fixture.keys.heldBytes), "bytes"]).int ?? 0
            }
            try await putOff(try await fixture.claim()[0], fixture)
            #expect(try await bytes() > 0)
            try await far(fixture.keys.lease, "b/a", fixture)
            try await findAndMend([.twoStates: 1], fixture)
            #expect(try await fixture.places("a") == ["lease"])
            #expect(try await bytes() == 0)
        }
    }

    @Test func aBodyThatADeadJobLeftIsNotCountedAgain() async throws {
        try await withJob { (fixture) async throws in
            let job = try await fixture.claim()[0]
            #expect(try await fixture.finish(job, .failed) == .ok)
            try await fixture.redis.send(["HSET", .string(fixture.keys.body), "b/a", "{}"])
            try await findAndMend([.withoutMeta: 1], fixture)
            #expect(try await fixture.queue.deadLetter(id: "a")?.content.code == "x", "the first error stays")
            #expect(try await fixture.batch("b")["failed"] == 1)
            #expect(try await fixture.queue.alive() == 0)
        }
    }

    @Test func aMetaWithoutBodyHasFailed() async throws {
        try await withJob { (fixture) async throws in
            try await fixture.redis.send(["HDEL", .string(fixture.keys.body), "b/a"])
            try await findAndMend([.withoutBody: 1], fixture)
            #expect(try await fixture.places("a").isEmpty)
            #expect(try await fixture.count("HLEN", fixture.keys.meta) == 0)
            let batch = try await fixture.batch("b")
            #expect(batch["failed"] == 1 && batch.ended == 1 && batch.isFinished)
            #expect(try await ledger(fixture).map(\.error?.code) == ["orphan"])
        }
    }

    /// Fault: the script stopped there each time, and later inconsistencies were never repaired.
    @Test func aDamagedBatchKeepsNothingFromBeingMended() async throws {
        try await withJob { (fixture) async throws in
            try await fixture.redis.send(["HDEL", .string(fixture.keys.body), "b/a"])
            try await fixture.redis.send(["SET", .string(fixture.keys.batch("b")), "no hash"])
            try await findAndMend([.withoutBody: 1], fixture)
            let ends = try await fixture.redis.send(["HGET", .string(fixture.keys.stat), "damaged_batch_ends"])
            #expect(ends.int == 1)
            try await fixture.submit([QueueFixture.job("c", batch: "c")], to: "c")
            try await fixture.redis.send(["DEL", .string(fixture.keys.intakes)])
            try await fixture.redis.send(["SET", .string(fixture.keys.batch("c")), "no hash"])
            try await findAndMend([.lostIntake: 1], fixture)
        }
    }

    @Test func entriesOfNoJobGo() async throws {
        try await withJob { (fixture) async throws in
            try await fixture.redis.send(["LPUSH", ready(fixture), "x", "x"])
            try await far(fixture.keys.lease, "y", fixture)
            try await far(fixture.keys.delay, "z", fixture)
            try await findAndMend([.withoutJob: 3], fixture)
            for id in ["x", "y", "z"] { #expect(try await fixture.places(id).isEmpty) }
            try await runsOnce("a", fixture)
        }
    }

    // MARK: - Alive and dead

    @Test func theLivingAreNotDead() async throws {
        try await withJob { (fixture) async throws in
            try await fixture.redis.send(["ZADD", .string(fixture.keys.dead), "1", "b/a"])
            try await fixture.redis.send(["HSET", .string(fixture.keys.deadInfo), "b/a", "{}"])
            try await findAndMend([.undead: 1], fixture)
            #expect(try await fixture.places("a") == ["ready"])
            #expect(try await fixture.count("HLEN", fixture.keys.deadInfo) == 0)
            try await fixture.redis.send(["DEL", ready(fixture)])
            try await fixture.redis.send(["ZADD", .string(fixture.keys.dead), "1", "b/a"])
            try await findAndMend([.orphan: 1, .undead: 1], fixture)
            try await runsOnce("a", fixture)
        }
    }

    // MARK: - Intake

    @Test func anEpochWithNothingStagedIsForgotten() async throws {
        try await withJob { (fixture) async throws in
            let stages = RedisArgument.string(fixture.keys.stages)
            try await fixture.redis.send(["SADD", stages, "77"])
            #expect(try await audit(fixture).examples.map(\.id) == ["77"])
            try await findAndMend([.emptyStage: 1], fixture)
            #expect(try await fixture.redis.send(["SISMEMBER", stages, "77"]).int == 0)
            try await runsOnce("a", fixture)
        }
    }

    @Test func anUnannouncedIntakeIsAnnouncedWithItsWeight() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.submit([QueueFixture.job("a", batch: "b")], to: "b", policy: .init(weight: 7))
            try await fixture.redis.send(["DEL", .string(fixture.keys.intakes), .string(fixture.keys.intakeWake)])
            #expect(try await fixture.admit() == .empty)
            try await findAndMend([.lostIntake: 1], fixture)
            #expect(try await fixture.redis.send(["ZSCORE", .string(fixture.keys.intakes), "b"]).int == 7)
            #expect(try await fixture.count("LLEN", fixture.keys.intakeWake) == 1)
            #expect(try await fixture.admit() == .admitted(.init(admitted: 1)))
            try await runsOnce("a", fixture)
        }
    }

    // MARK: - The report

    @Test func theReportIsOneJSONObject() async throws {
        try await withJob { (fixture) async throws in
            try await fixture.redis.send(["DEL", ready(fixture)])
            let report = try await audit(fixture)
            let json = WireJSON.text(report)
            #expect(json.contains(#""faults":{"orphan":1}"#) && json.contains(#""examined":1"#), "\(json)")
            #expect(try JSONDecoder().decode(QueueAudit.Report.self, from: Data(json.utf8)) == report)
        }
    }
}
