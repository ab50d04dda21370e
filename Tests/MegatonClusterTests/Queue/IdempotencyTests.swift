import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// Jobs with idempotency keys, and jobs that begin later.
@Suite(.timeLimit(.minutes(2))) struct IdempotencyTests {
    private func job(
        _ id: String,
        batch: String = "b",
        key: String? = nil,
        ttl: Int? = nil,
        notBefore: Double? = nil
    ) -> Data {
        var job = Job(id: id, source: "https://example.org/\(id).jpg", batch: batch, labels: ["seconds": .integer(0)])
        (job.idempotencyKey, job.idempotencyTTL, job.notBefore) = (key, ttl, notBefore)
        return job.json()
    }

    private func submit(_ jobs: [Data], to batch: String = "b", _ fixture: QueueFixture) async throws {
        try await fixture.submit(jobs, to: batch, policy: .init(keepsLedger: true))
        while case .admitted = try await fixture.admit() {}
    }

    private func end(
        _ fixture: QueueFixture,
        _ status: JobOutcome.Status = .done,
        failure: JobOutcome.Failure? = nil,
        notes: [String]? = nil
    ) async throws {
        for job in try await fixture.claim(9) {
            var outcome = JobOutcome(id: job.id, source: job.id, status: status, error: failure)
            outcome.notes = notes
            if status == .done {
                let path = "/srv/a]\"b.jpg"
                outcome.outputs = [
                    .init(
                        name: "small",
                        path: path,
                        width: 1,
                        height: 2,
                        format: .jpeg,
                        bytes: 3,
                        sha256: "",
                        from: .cache
                    )
                ]
            }
            let parsed = try Job(json: job.json, wasValidated: true)
            let dead =
                status == .failed
                ? DeadLetter.Content(code: "x", message: "why", job: String(decoding: job.json, as: UTF8.self)) : nil
            let end = JobCompletion(job: job, outcome: outcome, dead: dead, of: parsed)
            #expect(try await fixture.queue.settle([end], worker: "w1") == [.ok])
        }
    }

    private func outcomes(_ fixture: QueueFixture, of batch: String = "b") async throws -> [String?: JobOutcome] {
        let lines = try await fixture.results(of: batch, kept: 0)
        let outcomes = try lines.map { try JSONDecoder().decode(JobOutcome.self, from: $0) }
        return Dictionary(uniqueKeysWithValues: outcomes.map { ($0.id, $0) })
    }

    @Test func aSecondJobWithAKeyIsNotRun() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let key = "any text: \u{1F511} / {\"}"
            try await submit([job("a", key: key), job("b", key: key), job("c", key: "other")], fixture)
            #expect(try await fixture.count("HLEN", fixture.keys.body) == 2)
            let running = try await outcomes(fixture)
            #expect(running["b"]?.status == .deduplicated && running["b"]?.error?.code == "duplicate_key")
            #expect(running["b"]?.error?.message.contains("\"a\"") == true)
            try await end(fixture)
            #expect(try await fixture.batch("b").isFinished)
            // After its end too, in another batch, with the outputs of the first.
            try await submit([job("d", batch: "later", key: key)], to: "later", fixture)
            let later = try #require(try await outcomes(fixture, of: "later")["d"])
            #expect(later.status == .deduplicated && later.error == nil && later.source.hasSuffix("/d.jpg"))
            #expect(later.outputs.map(\.path) == ["/srv/a]\"b.jpg"] && later.labels == ["seconds": .integer(0)])
            #expect(try await fixture.batch("later").isFinished)
        }
    }

    @Test func aKeyIsRememberedForItsTime() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await submit([job("a", key: "k", ttl: 600), job("b", key: "l")], fixture)
            try await end(fixture)
            for (key, seconds) in [("k", 600), ("l", 24 * 3600)] {
                var entry = Job(source: "s")
                entry.idempotencyKey = key
                let digest = try #require(IdempotencyEntry(entry)).digest
                let left = try await fixture.count("TTL", fixture.keys.once(digest))
                #expect((seconds - 60...seconds).contains(left), "the end of the job does not prolong it")
                try await fixture.redis.send(["DEL", .string(fixture.keys.once(digest))])
            }
            try await submit([job("c", batch: "later", key: "k")], to: "later", fixture)
            #expect(try await fixture.count("HLEN", fixture.keys.body) == 1)
        }
    }

    /// Fault: the key of a job that begins later could be forgotten before.
    @Test func theTimeOfAKeyBeginsWithItsJob() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let later = Date().timeIntervalSince1970 + 3600
            try await submit([job("a", key: "k", ttl: 60, notBefore: later)], fixture)
            var entry = Job(source: "s")
            entry.idempotencyKey = "k"
            let digest = try #require(IdempotencyEntry(entry)).digest
            let left = try await fixture.count("TTL", fixture.keys.once(digest))
            #expect((3540...3661).contains(left))
        }
    }

    @Test func aFailedJobKeepsItsKeyAndACancelledOneGivesItUp() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let failure = JobOutcome.Failure(code: "not_found", message: "why", retryable: false)
            try await submit([job("a", key: "k")], fixture)
            try await end(fixture, .failed, failure: failure)
            try await submit([job("c", batch: "second", key: "k")], to: "second", fixture)
            let second = try await outcomes(fixture, of: "second")["c"]
            #expect(second?.status == .deduplicated && second?.error == failure && second?.outputs == [])
            // A repetition by an operator is run.
            #expect(try await fixture.queue.requeue(try await fixture.queue.deadLetters(offset: 0, limit: 9)) == 1)
            try await fixture.admit()
            #expect(try await fixture.places("a") == ["ready"])
            try await end(fixture)
            try await submit([job("d", batch: "third", key: "l")], to: "third", fixture)
            try await end(fixture, .cancelled)
            try await submit([job("e", batch: "fourth", key: "l")], to: "fourth", fixture)
            #expect(try await fixture.claim().map(\.id) == ["e"])
        }
    }

    /// Fault: the error of a failed job with a long outcome, which has the whole job, was forgotten.
    @Test func ofALongOutcomeTheErrorIsRemembered() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let notes = [String(repeating: "n", count: 3000)]
            let failure = JobOutcome.Failure(code: "not_found", message: "why / {\"}", retryable: false)
            try await submit([job("a", key: "k")], fixture)
            try await end(fixture, .failed, failure: failure, notes: notes)
            try await submit([job("b", batch: "second", key: "k")], to: "second", fixture)
            let second = try await outcomes(fixture, of: "second")["b"]
            #expect(second?.status == .deduplicated && second?.error == failure && second?.outputs == [])
            try await submit([job("c", batch: "third", key: "l")], to: "third", fixture)
            try await end(fixture, notes: notes)
            try await submit([job("d", batch: "fourth", key: "l")], to: "fourth", fixture)
            #expect(try await outcomes(fixture, of: "fourth")["d"]?.error?.code == "duplicate_key")
            let remembered = try await fixture.queue.rememberedOutcomes(of: ["k", "l"], timeout: .seconds(5)).outcomes
            #expect(remembered.count == 2 && remembered[1] == .ended(nil))
            guard case .ended(let json?)? = remembered[0] else {
                Issue.record("the failure is not remembered")
                return
            }
            #expect(try JSONDecoder().decode(JobOutcome.self, from: json).error == failure)
        }
    }

    @Test func aJobWaitsForItsTime() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let later = Date().timeIntervalSince1970 + 3600
            try await submit([job("a", notBefore: later), job("b", notBefore: 1), job("c")], fixture)
            #expect(try await fixture.places("a") == ["delay"])
            #expect(Set(try await fixture.claim(9).map(\.id)) == ["b", "c"])
            let due = try await fixture.redis.send(["ZSCORE", .string(fixture.keys.delay), "b/a"]).string
            #expect(abs(try #require(due.flatMap(Double.init)) - later * 1000) < 2)
            try await fixture.redis.send(["ZADD", .string(fixture.keys.delay), "XX", "1", "b/a"])
            #expect(try await fixture.claim(9).map(\.id) == ["a"])
            try await submit([job("d", batch: "gone", notBefore: later)], to: "gone", fixture)
            try await fixture.queue.cancel(batch: "gone")
            #expect(try await fixture.places("d") == ["ready"], "it ends as cancelled when it is claimed")
        }
    }
}
