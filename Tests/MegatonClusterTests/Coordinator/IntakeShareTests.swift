import Foundation
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

/// The shares of intakes with small and with large jobs, on a real Redis.
@Suite(.timeLimit(.minutes(2))) struct IntakeShareTests {
    /// Jobs of 700 KB, from a `data:` URL.
    private func large(_ name: String, _ count: Int, priority: Job.Priority = .normal) -> [Data] {
        let body = String(repeating: "A", count: 700_000)
        return (0..<count).map {
            Job(id: "\(name)\($0)", source: "data:image/png;base64,\($0)\(body)", batch: name, priority: priority)
                .json()
        }
    }

    private func small(_ name: String, _ count: Int, priority: Job.Priority = .normal) -> [Data] {
        (0..<count).map { QueueFixture.job("\(name)\($0)", batch: name, priority: priority) }
    }

    private func submit(_ jobs: [Data], to batch: String, _ fixture: QueueFixture) async throws {
        for (number, job) in jobs.enumerated() {
            _ = try await fixture.queue.submit(
                [job],
                to: batch,
                first: number,
                isLast: false,
                policy: BatchPolicy(),
                submitter: "me"
            )
        }
    }

    /// A round of a leader that stages up to 2,000 jobs, with room for all.
    private func largeRound(_ staged: inout StagedJobs, _ fixture: QueueFixture) async throws -> Intake.Round {
        var window = AdmissionWindow(limit: 16_000)
        window.observe(.places(8000))
        return try await fixture.intake.admit(epoch: fixture.epoch, window: &window, staged: &staged, chunk: 6000)
    }

    private func admitted(_ batch: String, _ fixture: QueueFixture) async throws -> Int {
        try await fixture.batch(batch)["total"]
    }

    /// Fault: batches took turns by jobs, so that ten small ones waited for thirty jobs of 700 KB.
    @Test func aSmallBatchDoesNotWaitForManyLargeJobs() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for name in ["l1", "l2", "l3"] { try await submit(large(name, 10), to: name, fixture) }
            var staged = StagedJobs()
            for _ in 0..<2 { _ = try await fixture.round(&staged) }
            try await fixture.submit(small("s", 10), to: "s")
            for _ in 0..<5 where try await admitted("s", fixture) < 10 { _ = try await fixture.round(&staged) }
            #expect(try await admitted("s", fixture) == 10)
            for _ in 0..<60 where !staged.isEmpty { _ = try await fixture.round(&staged) }
            for name in ["l1", "l2", "l3"] {
                #expect(try await admitted(name, fixture) == 10, "nor is a large one lost")
            }
        }
    }

    /// Fault: each call moved two large jobs and returned one, so that all that was pushed later waited behind the
    /// jobs of a growing stage.
    @Test func theStageHasOnlyJobsThatWereReturned() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for name in ["l1", "l2"] { try await submit(large(name, 8), to: name, fixture) }
            var staged = StagedJobs()
            for _ in 0..<6 {
                _ = try await fixture.round(&staged)
                let stage = try await fixture.count("LLEN", fixture.keys.stage(epoch: fixture.epoch))
                #expect(stage == staged.count && stage <= 2)
            }
        }
    }

    /// Fault: small jobs made the pages grow, and the next page had eight large ones: one call held Redis for 24 ms.
    @Test func largeJobsBehindSmallOnesAreTakenOneByOne() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await submit(small("b", 15) + large("b", 9), to: "b", fixture)
            var staged = StagedJobs()
            _ = try await fixture.round(&staged)
            // A round stages twice.
            #expect(try await fixture.count("LLEN", fixture.keys.jobs(batch: "b")) >= 6)
        }
    }

    /// Large texts are arguments of their own beside the array of the others.
    @Test func eachJobHasItsOwnTextIfSmallAndLargeOnesAreAdmittedTogether() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let sources = (0..<12).map {
                "data:image/png;base64,\($0)" + String(repeating: "A", count: $0 % 3 * 80_000)
            }
            try await fixture.push(
                Data(#"{"id":"bad","attempts":0,"source":"\#(String(repeating: "A", count: 90_000))"}"#.utf8)
            )
            for (number, source) in sources.enumerated() {
                try await fixture.push(Job(id: "j\(number)", source: source).json())
            }
            try await fixture.admitAll(12)
            for (number, source) in sources.enumerated() {
                let body = try await fixture.redis.send(["HGET", .string(fixture.keys.body), .string("j\(number)")])
                let isEqual = body.string?.contains(#""\#(source)""#) == true
                #expect(isEqual, "job \(number)")
            }
            #expect(try await fixture.redis.send(["HGET", .string(fixture.keys.stat), "failed"]).string == "1")
        }
    }

    /// Fault: jobs of other lists were taken before the call ended with an error, and lost.
    @Test func aPublicListOfAnotherTypeLosesNoJobs() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for number in 0..<20 { try await fixture.push(QueueFixture.job("j\(number)")) }
            try await fixture.redis.send(["SADD", .string(fixture.keys.jobs(.bulk)), "damaged"])
            try await fixture.admitAll(20)
            #expect(try await fixture.count("LLEN", fixture.keys.ready(.normal)) == 20)
        }
    }

    /// Fault: a batch that had once been served beside many others waited for thousands of jobs of the next one, as its
    /// debt was in the weights of that time.
    @Test func aDebtDoesNotOutlastTheOthers() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for number in 0..<20 {
                try await submit(small("h\(number)", 1, priority: .high), to: "h\(number)", fixture)
            }
            try await submit(large("l", 3, priority: .bulk), to: "l", fixture)
            try await fixture.redis.send(["HSET", .string(fixture.keys.credit), "l", "-500000 bulk"])
            for number in 0..<20 { try await fixture.queue.cancel(batch: "h\(number)") }
            try await submit(small("s", 1500), to: "s", fixture)
            var staged = StagedJobs()
            for _ in 0..<60 where try await admitted("l", fixture) == 0 { _ = try await fixture.round(&staged) }
            #expect(try await admitted("l", fixture) > 0)
            #expect(try await admitted("s", fixture) < 1000)
        }
    }

    /// Fault: a job of 30 MB in the public list, which is refused, kept small ones of the list back for thousands of
    /// jobs of a batch.
    @Test func theSizeOfARefusedJobCountsUpToALimit() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let junk = Data(repeating: UInt8(ascii: "x"), count: 30 << 20)
            try await fixture.push(junk)
            for index in 0..<10 { try await fixture.push(QueueFixture.job("p\(index)")) }
            try await submit(small("b", 2000), to: "b", fixture)
            var staged = StagedJobs()
            func ready() async throws -> Int { try await fixture.count("LLEN", fixture.keys.jobs) }
            for _ in 0..<60 where try await ready() > 0 { _ = try await fixture.round(&staged) }
            #expect(try await ready() == 0)
            #expect(try await admitted("b", fixture) < 400)
        }
    }

    /// Fault: a label of that name hid the priority of the job.
    @Test func aLabelIsNoPriority() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let labels = #""labels":{"priority":"P1"},"priority":"high""#
            let jobs = (0..<100).map { Data(#"{"id":"a\#($0)","source":"https://a.example/\#($0)",\#(labels)}"#.utf8) }
            try await submit(jobs, to: "a", fixture)
            try await submit(small("b", 100), to: "b", fixture)
            var staged = StagedJobs()
            for _ in 0..<3 { _ = try await fixture.round(&staged) }
            let (first, second) = (try await admitted("a", fixture), try await admitted("b", fixture))
            #expect(first > 2 * second && second > 0, "\(first) and \(second)")
        }
    }

    private let atOnce = Intake.admittedAtOnce

    /// A round admits by several calls of a script, one behind the other. Redis may have forgotten the script.
    @Test func allCallsOfARoundAreRepeatedIfRedisDoesNotKnowTheScript() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let count = 3 * atOnce - 36
            try await submit(small("b", count), to: "b", fixture)
            var staged = StagedJobs()
            let first = try await largeRound(&staged, fixture)
            #expect(first == .admitted(Intake.Counts(admitted: atOnce)), "others are validated meanwhile")
            try await fixture.redis.send(["SCRIPT", "FLUSH"])
            #expect(try await largeRound(&staged, fixture) == .admitted(Intake.Counts(admitted: count - atOnce)))
            #expect(staged.isEmpty)
            #expect(try await fixture.count("LLEN", fixture.keys.ready(.normal)) == count)
            #expect(try await fixture.count("LLEN", fixture.keys.stage(epoch: fixture.epoch)) == 0)
            #expect(try await admitted("b", fixture) == count)
        }
    }

    /// Fault: damage that ended the first call of a round let the second one take the entries of the first from the
    /// stage: those jobs were lost.
    @Test func aCallThatFailsLosesNoJobOfItsRound() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let rest = atOnce + 76
            try await submit(small("b", atOnce + rest), to: "b", fixture)
            var staged = StagedJobs()
            _ = try await largeRound(&staged, fixture)
            // An invalid job is counted as failed, which the damaged counter refuses.
            let stage = RedisArgument.string(fixture.keys.stage(epoch: fixture.epoch))
            #expect(staged.validated.count == rest)
            staged.validated[0] = fixture.intake.validator.validate(Data("{".utf8), batch: "b")
            try await fixture.redis.send(["HSET", .string(fixture.keys.stat), "failed", "12x"])
            await #expect(throws: RedisError.self) { _ = try await largeRound(&staged, fixture) }
            #expect(try await fixture.count("LLEN", fixture.keys.stage(epoch: fixture.epoch)) == rest)
            #expect(try await fixture.count("LLEN", fixture.keys.ready(.normal)) == atOnce)
            let first = try await fixture.redis.send(["LINDEX", stage, "0"]).string
            #expect(first?.contains("b\(atOnce)") == true, "nor has another call taken them")
        }
    }
}
