import Foundation
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

/// Ids belong to their batch: the same id in two batches means two jobs, the same id within one batch means one.
@Suite(.timeLimit(.minutes(2))) struct JobScopeTests {
    private func job(_ id: String, _ source: String, batch: String? = nil, labels: Job.Labels? = nil) -> Data {
        Job(id: id, source: source, batch: batch, labels: labels).json()
    }

    private func ledger(_ batch: String, _ fixture: QueueFixture, kept: Int = 0) async throws -> [JobOutcome] {
        try await fixture.results(of: batch, kept: kept, limit: 1000).map {
            try JSONDecoder().decode(JobOutcome.self, from: $0)
        }
    }

    private func admitAll(_ fixture: QueueFixture) async throws {
        while case .admitted = try await fixture.admit() {}
    }

    private func fail(_ job: ActiveJob, _ fixture: QueueFixture) async throws {
        let dead = DeadLetter.Content(
            code: "not_found",
            message: "gone",
            batch: job.batch.isEmpty ? nil : job.batch,
            job: String(decoding: job.json, as: UTF8.self)
        )
        let outcome = JobOutcome(id: job.id, source: "s", status: .failed)
        #expect(
            try await fixture.queue.settle([JobCompletion(job: job, outcome: outcome, dead: dead)], worker: "w1") == [
                .ok
            ]
        )
    }

    /// Fault: nearly all jobs of the second batch were taken for duplicates.
    @Test func twoBatchesMayUseTheSameIds() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for batch in ["one", "two"] {
                try await fixture.submit(
                    (1...20).map { job("\($0)", "https://\(batch)/\($0)") },
                    to: batch,
                    policy: .init(keepsLedger: true)
                )
            }
            try await fixture.push(job("1", "https://none/1"))
            try await admitAll(fixture)
            let jobs = try await fixture.claim(100)
            #expect(jobs.count == 41)
            for job in jobs { #expect(try await fixture.finish(job) == .ok) }
            for batch in ["one", "two"] {
                let counters = try await fixture.batch(batch)
                #expect(counters["done"] == 20 && counters["total"] == 20 && counters.isFinished)
                #expect(Set(try await ledger(batch, fixture).compactMap(\.id)) == Set((1...20).map(String.init)))
                #expect(try await fixture.count("EXISTS", fixture.keys.known(batch)) == 0)
            }
        }
    }

    @Test func theSameJobOfABatchIsDoneOnceAndEachHasItsLine() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let first = job("a", "https://h/a", labels: ["n": .integer(1)])
            // Serialized differently, it is still the same job.
            let same = Data(#"{"labels":{"n":1},"source":"https://h/a","id":"a","attempts":7}"#.utf8)
            _ = try await fixture.queue.submit(
                [first, same, same],
                to: "b",
                first: 0,
                isLast: false,
                policy: .init(keepsLedger: true),
                submitter: "me"
            )
            try await admitAll(fixture)
            let claimed = try await fixture.claim(10)
            #expect(claimed.map(\.id) == ["a"])
            var outcome = JobOutcome(id: "a", source: "https://h/a", status: .done, labels: ["status": .text("x")])
            outcome.seconds = 2
            #expect(
                try await fixture.queue.settle([JobCompletion(job: claimed[0], outcome: outcome)], worker: "w1") == [
                    .ok
                ]
            )
            // Also long after it has ended.
            _ = try await fixture.queue.submit(
                [same],
                to: "b",
                first: 3,
                isLast: true,
                policy: .init(keepsLedger: true),
                submitter: "me"
            )
            try await admitAll(fixture)
            #expect(try await fixture.claim(10).isEmpty)
            let lines = try await ledger("b", fixture)
            #expect(lines.map(\.status) == [.done, .deduplicated, .deduplicated, .deduplicated])
            #expect(lines.allSatisfy { $0.id == "a" && $0.seconds == 2 && $0.labels == ["status": .text("x")] })
            let counters = try await fixture.batch("b")
            #expect(counters["total"] == 4 && counters["done"] == 1 && counters["deduplicated"] == 3)
            #expect(counters.isFinished)
        }
    }

    @Test(arguments: [false, true]) func anotherJobWithAnIdOfTheBatchIsAnError(_ hasEnded: Bool) async throws {
        try await QueueFixture.run { (fixture) async throws in
            let policy = BatchPolicy(keepsLedger: true)
            func submit(_ jobs: [Data], first: Int, isLast: Bool) async throws {
                _ = try await fixture.queue.submit(
                    jobs,
                    to: "b",
                    first: first,
                    isLast: isLast,
                    policy: policy,
                    submitter: "me"
                )
                try await admitAll(fixture)
            }
            try await submit([job("a", "https://h/a")], first: 0, isLast: false)
            if hasEnded { try await fail(try await fixture.claim()[0], fixture) }
            try await submit([job("a", "https://h/other", labels: ["n": .bool(true)])], first: 1, isLast: true)
            if !hasEnded { try await fail(try await fixture.claim()[0], fixture) }
            #expect(try await fixture.claim().isEmpty)
            let counters = try await fixture.batch("b")
            #expect(counters["total"] == 2 && counters["failed"] == 2 && counters.isFinished)
            let line = try #require(try await ledger("b", fixture).first { $0.error?.code == "id_conflict" })
            #expect(line.error?.message.contains("; that job came first and stays, and this one is refused;") == true)
            // Fault: digits of the time of the refusal were in the seconds.
            #expect(line.seconds == 0 && (line.endedAt ?? 0) > 1_700_000_000, "\(line)")
            #expect(line.id == "a" && line.status == .failed && line.labels == ["n": .bool(true)])
            #expect(line.job?.source == "https://h/other", "a repetition can submit it under another id")
            #expect(line.source == "https://h/other" && line.error?.message.contains("batch \"b\"") == true)
            // Both are dead, each with its own dead letter.
            let letters = try await fixture.queue.deadLetters(id: "a", batch: "b")
            #expect(Set(letters.map(\.content.code)) == ["not_found", "id_conflict"])
            #expect(letters.allSatisfy { $0.id == "a" && $0.batch == "b" })
            #expect(letters.first { $0.content.code == "id_conflict" }?.content.labels == ["n": .bool(true)])
            #expect(try await QueueAudit(queue: fixture.queue).run().count == 0)
            #expect(try await fixture.queue.drop(letters) == 2)
        }
    }

    @Test func withoutABatchOnlyWhatIsAliveIsCompared() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(job("a", "https://h/a"), job("a", "https://h/a"), job("a", "https://h/b"))
            #expect(try await fixture.admit() == .admitted(.init(admitted: 1, invalid: 1, duplicates: 1)))
            let letters = try await fixture.queue.deadLetters(id: "a")
            #expect(letters.map(\.content.code) == ["id_conflict"] && letters[0].batch == nil)
            #expect(try await fixture.finish(try await fixture.claim()[0]) == .ok)
            try await fixture.push(job("a", "https://h/b"))
            #expect(try await fixture.admit() == .admitted(.init(admitted: 1)))
        }
    }

    /// Fault: a job that was refused for its output could not be retried with another root.
    @Test func aJobThatItsClientRefusedIsInItsOutcome() throws {
        func held(_ output: String?, _ source: String = "https://h/a", refused: String? = "it is outside") -> Job? {
            var job = Job(id: "a", source: source, output: output)
            job.refused = refused
            let verdict = JobValidator(presets: [:]).validate(job.json(), batch: "").verdict
            guard case .invalid(_, _, let found) = verdict else { return nil }
            return found
        }
        let job = try #require(held("file:///srv/a.jpg"))
        #expect(job.output == "file:///srv/a.jpg" && job.refused == nil && job.validationError == nil)
        #expect(held(nil) == nil, "a refused line of a list")
        #expect(held("file:///srv/a.jpg", "") == nil, "invalid for another reason too")
        #expect(held("file:///srv/{no}.jpg", refused: nil) == nil)
        #expect(held("file:///srv/\(String(repeating: "a", count: JobOutcome.maximumJobSize)).jpg") == nil)
    }

    /// Fault: a job that may replace files, or asks for a reload, was taken for a job with the same id that may not.
    @Test func jobsOfAnIdDifferByAllThatTheyAskFor() throws {
        let validator = JobValidator(presets: [:])
        func content(_ fields: String) -> String? {
            let json = #"{"id":"a","source":"https://h/a"\#(fields)}"#
            return validator.validate(Data(json.utf8), batch: "b").content
        }
        #expect(content("") != nil && content("") == content(#","attempts":7,"priority":"high""#))
        for fields in [#","replace":"all""#, #","reload":true"#, #","failOn":"none""#, #","kind":"fetch""#] {
            #expect(content(fields) != nil && content(fields) != content(""), "\(fields)")
        }
    }

    @Test func soManyDuplicatesWaitAndTheOthersEndAtOnce() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let jobs = (0..<150).map { _ in job("a", "https://h/a") }
            try await fixture.submit(jobs, to: "b", policy: .init(keepsLedger: true))
            try await admitAll(fixture)
            #expect(try await fixture.batch("b")["deduplicated"] == 141)
            #expect(try await fixture.finish(try await fixture.claim(5)[0]) == .ok)
            let counters = try await fixture.batch("b")
            #expect(counters["done"] == 1 && counters["deduplicated"] == 149 && counters.isFinished)
            #expect(try await ledger("b", fixture).count == 150)
        }
    }

    /// Fault: a day later the waiting duplicate was forgotten, and its batch never ended.
    @Test func aDuplicateThatWaitsIsNotForgotten() async throws {
        try await QueueFixture.run { (fixture) async throws in
            func lifetime() async throws -> Int { try await fixture.count("TTL", fixture.keys.known("b")) }
            // Without a submitter.
            try await fixture.push(job("a", "https://h/a", batch: "b"))
            try await admitAll(fixture)
            #expect(try await lifetime() > 0)
            try await fixture.push(job("a", "https://h/a", batch: "b"))
            try await admitAll(fixture)
            #expect(try await lifetime() > 366 * 86_400)
            try await fixture.push(job("c", "https://h/c", batch: "b"))
            try await admitAll(fixture)
            #expect(try await lifetime() > 366 * 86_400, "the next job does not limit its time again")
            for job in try await fixture.claim(9) { #expect(try await fixture.finish(job) == .ok) }
            #expect(try await fixture.batch("b")["deduplicated"] == 1)
        }
    }

    @Test func duplicatesEndWithACancelledJob() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let jobs = (0..<2).map { _ in job("a", "https://h/a") }
            try await fixture.submit(jobs, to: "b", policy: .init(keepsLedger: true))
            try await admitAll(fixture)
            try await fixture.queue.cancel(batch: "b")
            #expect(try await fixture.finish(try await fixture.claim()[0], .cancelled) == .ok)
            let counters = try await fixture.batch("b")
            #expect(counters["cancelled"] == 1 && counters["deduplicated"] == 1 && counters.isFinished)
        }
    }

    @Test func idsThatWereMadeForTheBatchAreNotRemembered() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let submitter = BatchSubmitter(queue: fixture.queue, batch: "b")
            try await submitter.add(job("b.1", "https://h/a"), hasUniqueID: true)
            try await submitter.flush()
            try await admitAll(fixture)
            #expect(try await fixture.count("EXISTS", fixture.keys.known("b")) == 0)
            try await submitter.add(job("own", "https://h/a"))
            try await submitter.flush()
            try await admitAll(fixture)
            #expect(try await fixture.count("HLEN", fixture.keys.known("b")) == 1)
        }
    }

    // MARK: - Invalid jobs

    @Test func anInvalidJobKeepsIdBatchAndLabels() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.redis.send(["HSET", .string(fixture.keys.batch("b")), "ledger", "1"])
            let json = [
                #"{"id":5,"batch":"b","source":"https://h/a","labels":{"n":1},"renditions":[{"width":3,"format":"jpgg"}]}"#,
                #"{"id":"odd id","batch":"b","source":"https://h/b"}"#,
                #"{"id":"6","batch":"b","preset":"none","source":"https://h/c"}"#,
                #"{"id":"7","batch":"b","source":"data:,\#(String(repeating: "A", count: Job.maximumSize))"}"#,
                #"{"id":"8","batch":"no/batch","source":"https://h/c"}"#, "nonsense",
            ]
            try await fixture.push(Data(json[0].utf8))
            for text in json.dropFirst() { try await fixture.push(Data(text.utf8)) }
            try await admitAll(fixture)
            let counters = try await fixture.batch("b")
            #expect(counters["total"] == 4 && counters["failed"] == 4)
            let lines = try await ledger("b", fixture)
            #expect(lines.count == 4 && lines.allSatisfy { $0.error?.code == "invalid_job" && $0.status == .failed })
            let five = try #require(lines.first { $0.id == "5" })
            #expect(five.labels == ["n": .integer(1)] && five.source == "https://h/a")
            #expect(five.error?.message.contains("renditions[0].format is \"jpgg\"; allowed are jpeg") == true)
            // Fault: the outcome lacked a readable job, which could be repeated once the coordinator knows the preset.
            let six = try #require(lines.first { $0.id == "6" })
            #expect(six.job?.source == "https://h/c" && six.job?.preset == "none" && five.job == nil)
            let ids = Set(lines.compactMap(\.id))
            #expect(ids.isSuperset(of: ["5", "6", "7"]), "7 was cut, and is known by its beginning")
            // Fault: the message had no size, and the excerpt must not get it.
            let large = try #require(try await fixture.queue.deadLetter(id: "7"))
            #expect(large.content.message.contains("the job has \(json[3].utf8.count) bytes of JSON, with the id"))
            #expect(large.content.message.hasSuffix("; allowed are \(Job.maximumSize)"))
            #expect(large.content.job == json[3].prefix(JobValidator.excerpt))
            let letter = try #require(try await fixture.queue.deadLetter(id: "5"))
            #expect(
                letter.batch == "b" && letter.content.labels == ["n": .integer(1)]
                    && letter.content.code == "invalid_job"
            )
            #expect(try await fixture.queue.deadLetter(id: "8")?.batch == nil)
            let all = try await fixture.queue.deadLetters(offset: 0, limit: 10)
            #expect(all.count == 6 && all.contains { $0.content.job == "nonsense" && $0.batch == nil })
        }
    }

    @Test func aBatchThatWasDeclaredClosesWithItsInvalidJobs() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let bad = Data(#"{"id":"a","batch":"other","source":"https://h/a"}"#.utf8)
            try await fixture.submit([bad, Data("{}".utf8)], to: "b", policy: .init(keepsLedger: true))
            try await admitAll(fixture)
            let counters = try await fixture.batch("b")
            #expect(counters["failed"] == 2 && counters["own"] == 2 && counters.isFinished)
            #expect(try await ledger("b", fixture).contains { $0.id == "a" })
            #expect(try await fixture.batch("other").isKnown == false)
        }
    }

    /// A running job does not become a dead letter when another job uses its id.
    @Test func anInvalidJobWithTheIdOfALivingOneHasALetterOfItsOwn() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(job("a", "https://h/a", batch: "b"))
            try await fixture.admit()
            try await fixture.push(Data(#"{"id":"a","batch":"b"}"#.utf8))
            try await fixture.admit()
            #expect(try await QueueAudit(queue: fixture.queue).run().count == 0)
            #expect(try await fixture.queue.deadLetter(id: "a")?.content.code == "invalid_job")
            #expect(try await fixture.finish(try await fixture.claim()[0]) == .ok)
            let counters = try await fixture.batch("b")
            #expect(counters["done"] == 1 && counters["failed"] == 1 && counters["total"] == 2)
        }
    }

    // MARK: - Dead letters

    @Test func theSameIdOfTwoBatchesIsRequeuedTwice() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for batch in ["one", "two"] { try await fixture.push(job("1", "https://h/\(batch)", batch: batch)) }
            try await admitAll(fixture)
            for job in try await fixture.claim(5) { try await fail(job, fixture) }
            #expect(try await fixture.queue.deadLetters(id: "1").map(\.batch) == ["one", "two"])
            #expect(try await fixture.queue.deadLetters(id: "two/1").map(\.batch) == ["two"])
            #expect(try await fixture.queue.deadLetters(id: "1", batch: "").isEmpty)
            let letters = try await fixture.queue.deadLetters(offset: 0, limit: 10)
            #expect(try await fixture.queue.requeue(letters) == 2)
            try await admitAll(fixture)
            let jobs = try await fixture.claim(5)
            #expect(jobs.count == 2 && jobs.allSatisfy { $0.batch.isEmpty && $0.id == "1" })
            try await fail(jobs[0], fixture)
            #expect(try await fixture.finish(jobs[1]) == .ok)
            let again = try await fixture.queue.deadLetters(id: "1")
            #expect(again.map(\.batch) == [jobs[0].key.batch], "it is found where it was")
            #expect(try await fixture.batch("one")["total"] == 1)
        }
    }

    /// Jobs and dead letters of an earlier version are keyed by their id alone.
    @Test func jobsOfEarlierKeysAreRead() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let keys = fixture.keys
            let body = RedisArgument.buffer(ByteBuffer(bytes: job("old", "https://h/a", batch: "b")))
            try await fixture.redis.send(["HSET", .string(keys.body), "old", body])
            try await fixture.redis.send(["HSET", .string(keys.meta), "old", "0|0||2|b"])
            try await fixture.redis.send(["LPUSH", .string(keys.ready(.normal)), "old"])
            try await fixture.redis.send(["HSET", .string(keys.batch("b")), "total", "1", "ledger", "1"])
            let claimed = try await fixture.claim()[0]
            #expect(claimed.id == "old" && claimed.batch == "b")
            try await fail(claimed, fixture)
            #expect(try await fixture.batch("b")["failed"] == 1)
            #expect(try await ledger("b", fixture).map(\.id) == ["old"])
            let letter = try #require(try await fixture.queue.deadLetters(id: "old", batch: "b").first)
            #expect(try await fixture.queue.requeue([letter]) == 1)
            try await fixture.admit()
            #expect(try await fixture.claim().map(\.id) == ["old"])
        }
    }
}
