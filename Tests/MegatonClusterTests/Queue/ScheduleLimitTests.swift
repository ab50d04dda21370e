import Foundation
import MegatonRedis
import Testing

@testable import MegatonCluster

/// Jobs that begin in more than an hour, which are limited in the public lists.
@Suite(.timeLimit(.minutes(2))) struct ScheduleLimitTests {
    /// Runs the body with a queue whose leader has these limits.
    private func run(_ limits: WaitingLimits, _ body: (QueueFixture) async throws -> Void) async throws {
        try await QueueFixture.run { (fixture) async throws in
            var intake = fixture.intake
            intake.waitingLimits = limits
            try await body(
                QueueFixture(
                    server: fixture.server,
                    redis: fixture.redis,
                    queue: fixture.queue,
                    leadership: fixture.leadership,
                    intake: intake,
                    epoch: fixture.epoch
                )
            )
        }
    }

    private func job(_ id: String, in seconds: Double, batch: String = "b") -> Data {
        var job = Job(id: id, source: "https://example.org/\(id).jpg", batch: batch)
        job.notBefore = Date().timeIntervalSince1970 + seconds
        return job.json()
    }

    private func push(_ json: Data, _ fixture: QueueFixture) async throws {
        try await fixture.push(json)
        while case .admitted = try await fixture.admit() {}
    }

    /// Fault: jobs for the next year, which one client pushed to a public list, closed it for all others until then.
    @Test func scheduledJobsDoNotFillTheRoomForWaitingOnes() async throws {
        try await run(WaitingLimits(jobs: 3, bytes: 1 << 20)) { (fixture) async throws in
            for index in 0..<5 { try await push(job("far\(index)", in: 7200), fixture) }
            try await push(job("near", in: 600), fixture)
            #expect(try await fixture.places("far3") == ["delay"])
            #expect(try await fixture.places("far4") == ["dead"])
            #expect(try await fixture.places("near") == ["delay"])
            let letters = try await fixture.queue.deadLetters(offset: 0, limit: 9)
            #expect(letters.map(\.content.code) == ["schedule_full"])
            #expect(letters[0].content.message.hasPrefix("notBefore is more than an hour ahead"))
            #expect(try await fixture.batch("b")["failed"] == 1)
            try await fixture.submit([job("own", in: 7200, batch: "c")], to: "c")
            while case .admitted = try await fixture.admit() {}
            #expect(try await fixture.places("own") == ["delay"], "its list waits, and no other")
            try await fixture.redis.send(["DEL", .string(fixture.keys.delay), .string(fixture.keys.heldBytes)])
            #expect(try await fixture.queue.requeue(letters) == 1)
            while case .admitted = try await fixture.admit() {}
            #expect(try await fixture.places("far4") == ["ready"], "an operator requeues a job to have it run")
        }
    }

    /// Fault: a large batch of a slow host filled the limit, so that scheduled jobs of all other clients failed.
    @Test(arguments: [WaitingLimits(jobs: 20, bytes: 1 << 20), WaitingLimits(jobs: 1000, bytes: 1000)])
    func jobsThatWaitForAHostDoNotCount(_ limits: WaitingLimits) async throws {
        try await run(limits) { (fixture) async throws in
            // As if so many jobs, or bytes of them, were held.
            for index in 0..<min(limits.jobs + 5, 100) {
                try await fixture.redis.send(["ZADD", .string(fixture.keys.holding), "0", "other\(index)"])
            }
            let held = RedisArgument.string(fixture.keys.heldBytes)
            try await fixture.redis.send(["HSET", held, "bytes", .int(min(limits.bytes + 100, 2000))])
            try await push(job("far", in: 7200), fixture)
            #expect(try await fixture.places("far") == ["delay"])
            guard limits.bytes == 1000 else { return }
            for index in 0..<12 {
                try await fixture.redis.send(["HSET", held, "bytes", .int(1100)])
                try await push(job("far\(index)", in: 7200), fixture)
            }
            #expect(try await fixture.places("far1") == ["delay"])
            #expect(try await fixture.places("far11") == ["dead"], "their own bytes count")
        }
    }

    /// Fault: a refused job kept the digest of its work, so that the next one with it was taken for a duplicate.
    @Test func aRefusedJobMayComeAgain() async throws {
        try await run(WaitingLimits(jobs: 1, bytes: 1 << 20)) { (fixture) async throws in
            let policy = BatchPolicy(deduplicates: true)
            _ = try await fixture.queue.submit([], to: "b", first: 0, isLast: false, policy: policy, submitter: "me")
            for index in 0..<2 { try await push(job("far\(index)", in: 7200), fixture) }
            var last = Job(id: "first", source: "https://example.org/again.jpg", batch: "b")
            last.notBefore = Date().timeIntervalSince1970 + 7200
            try await push(last.json(), fixture)
            #expect(try await fixture.places("first") == ["dead"])
            (last.id, last.notBefore) = ("second", nil)
            try await push(last.json(), fixture)
            #expect(try await fixture.places("second") == ["ready"])
        }
    }
}
