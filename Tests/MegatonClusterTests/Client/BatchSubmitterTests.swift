import Foundation
import MegatonRedis
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCluster

/// A submission whose Redis returns to an earlier state, or whose batch another process closes.
@Suite(.timeLimit(.minutes(2))) struct BatchSubmitterTests {
    private func jobs(_ range: Range<Int>) -> [Data] { range.map { QueueFixture.job("j\($0)", batch: "b") } }

    private func pushed(_ fixture: QueueFixture) async throws -> [String] {
        let values = try await fixture.redis.send(["LRANGE", .string(fixture.keys.jobs(batch: "b")), "0", "-1"]).array
        return try (values ?? []).reversed().map { value in
            try #require(try Job(json: Data((value.string ?? "").utf8)).id)
        }
    }

    @Test func jobsThatRedisForgotArePushedAgain() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let restored = Mutex(0)
            let submitter = BatchSubmitter(
                queue: fixture.queue,
                batch: "b",
                onRestore: { count in restored.withLock { $0 += count } }
            )
            for job in jobs(0..<700) { try await submitter.add(job) }
            try await submitter.flush()
            try await fixture.redis.send(["SAVE"])
            for job in jobs(700..<1900) { try await submitter.add(job) }
            try await submitter.flush()
            try await fixture.restart()
            #expect(try await fixture.batch("b")["submitted"] == 700)
            // The next push notices it.
            for job in jobs(1900..<2000) { try await submitter.add(job) }
            try await submitter.close()
            #expect(restored.withLock { $0 } == 1200)
            #expect(await submitter.submitted == 2000)
            #expect(try await pushed(fixture) == (0..<2000).map { "j\($0)" })
            #expect(try await fixture.batch("b")["closed"] == 1)
            // And so does a submitter that waits.
            try await fixture.restart()
            try await submitter.restore()
            try await submitter.restore()
            #expect(restored.withLock { $0 } == 2500)
            #expect(try await pushed(fixture) == (0..<2000).map { "j\($0)" })
            try await fixture.redis.send(["FLUSHALL"])
            try await submitter.restore()
            #expect(try await pushed(fixture).count == 2000)
            let batch = try await fixture.batch("b")
            #expect(batch["submitted"] == 2000 && batch["closed"] == 1)
        }
    }

    /// Their numbers are those of the order in which they were added, so that a push that is repeated adds none twice.
    @Test func urgentJobsGoBeforeAllThatWait() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let submitter = BatchSubmitter(queue: fixture.queue, batch: "b")
            let jobs = jobs(0..<6)
            for job in jobs[0..<3] { try await submitter.add(job) }
            try await submitter.flush()
            try await submitter.add(jobs[3], isUrgent: true)
            try await submitter.add(jobs[4])
            try await submitter.add(jobs[5], isUrgent: true)
            try await submitter.flush()
            #expect(try await pushed(fixture) == ["j5", "j3", "j0", "j1", "j2", "j4"])
            #expect(try await fixture.batch("b")["submitted"] == 6)
            let command: RedisCommand = ["HGET", .string(fixture.keys.batch("b")), "submitter"]
            let name = try #require(try await fixture.redis.send(command).string)
            let repeated = try await fixture.queue.push(
                [PushedJob(json: jobs[4]), PushedJob(json: jobs[5], isUrgent: true)],
                to: "b",
                first: 4,
                isLast: false,
                policy: BatchPolicy(),
                submitter: name
            )
            #expect(repeated == 6)
            #expect(try await pushed(fixture).count == 6)
        }
    }

    /// Fault: a signal did not end the wait for a full Redis, which lasts a minute.
    @Test func aStopEndsTheWaitForAFullRedis() async throws {
        try await QueueFixture.run(.init(settings: ["maxmemory-policy noeviction"])) { (fixture) async throws in
            try await fixture.redis.send(["CONFIG", "SET", "maxmemory", "1"])
            let isStopped = Mutex(false)
            let submitter = BatchSubmitter(
                queue: fixture.queue,
                batch: "b",
                stopsWaiting: { isStopped.withLock { $0 } },
                onDelay: { _ in isStopped.withLock { $0 = true } }
            )
            try await submitter.add(jobs(0..<1)[0])
            let start = ContinuousClock.now
            await #expect { try await submitter.flush() } throws: { ($0 as? RedisError)?.code == .outOfMemory }
            #expect(start.duration(to: .now) < .seconds(30))
            #expect(await submitter.submitted == 0)
            // Nothing is lost by it.
            isStopped.withLock { $0 = false }
            try await fixture.redis.send(["CONFIG", "SET", "maxmemory", "0"])
            try await submitter.close()
            #expect(await submitter.submitted == 1)
        }
    }

    /// Fault: an upload over HTTP waited for a minute for a Redis that was away.
    @Test(arguments: [true, false]) func aCallerMayWaitForLessTime(_ isAway: Bool) async throws {
        try await RedisServerProcess.run { (server) async throws in
            let redis = server.client()
            defer { redis.close() }
            let delays = Mutex(0)
            let submitter = BatchSubmitter(
                queue: JobQueue(redis, keys: QueueKeys(queue: "test")),
                batch: "b",
                retryTime: .zero,
                onDelay: { _ in delays.withLock { $0 += 1 } }
            )
            try await submitter.add(jobs(0..<1)[0])
            if isAway {
                await server.crash()
            } else {
                try await redis.send(["CONFIG", "SET", "maxmemory", "1"])
            }
            await #expect { try await submitter.flush() } throws: { ($0 as? RedisError)?.isTransient == true }
            #expect(delays.withLock { $0 } == 0, "there is one attempt")
        }
    }

    @Test func packsCountAsTheirSourcesAndAreRestored() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let restored = Mutex(0)
            let submitter = BatchSubmitter(
                queue: fixture.queue,
                batch: "b",
                onRestore: { count in restored.withLock { $0 += count } }
            )
            func pack(_ number: Int) -> Data {
                let sources = (1...10).map { Pack.Source(id: "p\(number).\($0)", source: "http://a.example/\($0)") }
                return Pack(sharing: Job(id: "p\(number)", source: "", batch: "b"), sources: sources).json()
            }
            for number in 0..<5 { try await submitter.add(pack(number), sources: 10, hasUniqueID: true) }
            try await submitter.add(jobs(0..<1)[0], hasUniqueID: true)
            try await submitter.flush()
            #expect(await submitter.submitted == 51)
            try await fixture.redis.send(["SAVE"])
            for number in 5..<8 { try await submitter.add(pack(number), sources: 10, hasUniqueID: true) }
            try await submitter.flush()
            try await fixture.restart()
            try await submitter.restore()
            #expect(restored.withLock { $0 } == 30)
            try await submitter.close()
            #expect(try await fixture.batch("b")["submitted"] == 81)
            #expect(try await fixture.count("LLEN", fixture.keys.jobs(batch: "b")) == 9)
        }
    }

    /// Otherwise the batch would stay open, and never end.
    @Test func aRestoredBatchIsClosedAgainAlthoughTheFirstAttemptFails() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let submitter = BatchSubmitter(queue: fixture.queue, batch: "b")
            for job in jobs(0..<10) { try await submitter.add(job) }
            try await submitter.close()
            try await fixture.redis.send(["FLUSHALL"])
            // The push fails: the intake of the batch is not a list.
            let intake = RedisArgument.string(fixture.keys.jobs(batch: "b"))
            try await fixture.redis.send(["SET", intake, "x"])
            await #expect(throws: RedisError.self) { try await submitter.restore() }
            try await fixture.redis.send(["DEL", intake])
            try await submitter.restore()
            let batch = try await fixture.batch("b")
            #expect(batch["submitted"] == 10 && batch["closed"] == 1)
            #expect(try await pushed(fixture) == (0..<10).map { "j\($0)" })
        }
    }

    @Test func aSubmitterThatCannotRestoreSaysSo() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let submitter = BatchSubmitter(queue: fixture.queue, batch: "b", keptLimit: 20_000)
            for job in jobs(0..<3000) { try await submitter.add(job) }
            try await submitter.close()
            try await fixture.redis.send(["FLUSHALL"])
            await #expect { try await submitter.restore() } throws: { error in
                let error = error as? RedisError
                return error?.code == .jobsLost && error?.message.contains("Submit again") == true
            }
        }
    }

    @Test func aCancelledBatchIsNotRestored() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let submitter = BatchSubmitter(queue: fixture.queue, batch: "b")
            for job in jobs(0..<10) { try await submitter.add(job) }
            try await submitter.flush()
            try await fixture.queue.cancel(batch: "b")
            for job in jobs(10..<20) { try await submitter.add(job) }
            try await submitter.close()
            try await submitter.restore()
            let batch = try await fixture.batch("b")
            #expect(batch["submitted"] == 10 && batch["cancelled"] == 10 && batch.isFinished)
        }
    }

    @Test func aBatchThatAnotherProcessClosesTakesNoMoreJobs() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let submitter = BatchSubmitter(queue: fixture.queue, batch: "b")
            for job in jobs(0..<2) { try await submitter.add(job) }
            try await submitter.flush()
            #expect(try await !fixture.queue.close(batch: "b"))
            try await submitter.add(jobs(2..<3)[0])
            await #expect { try await submitter.flush() } throws: {
                guard let error = $0 as? RedisError else { return false }
                let message = error.message
                return error.code == .batchClosed && message.contains("the batch b,") && message.contains("The 2 that")
            }
            try await submitter.cancel()
            try await fixture.admit()
            for job in try await fixture.claim(9) { #expect(try await fixture.finish(job) == .ok) }
            let batch = try await fixture.batch("b")
            #expect(batch.isFinished && batch["done"] == 2 && batch["cancelled"] == 0)
        }
    }

    /// Jobs in the public list belong to no batch before they are admitted.
    @Test func aBatchOfThePublicListEndsWithTheAnnouncedNumberOfJobs() async throws {
        try await QueueFixture.run { (fixture) async throws in
            await #expect { try await fixture.queue.close(batch: "b") } throws: {
                ($0 as? RedisError)?.code == .noBatch
            }
            try await fixture.push(jobs(0..<1)[0])
            try await fixture.admit()
            for job in try await fixture.claim() { _ = try await fixture.finish(job) }
            #expect(try await !fixture.queue.close(batch: "b", expected: 2))
            #expect(try await !fixture.batch("b").isFinished)
            try await fixture.push(jobs(1..<2)[0])
            try await fixture.admit()
            for job in try await fixture.claim() { _ = try await fixture.finish(job) }
            #expect(try await fixture.batch("b").isFinished)
            #expect(try await fixture.queue.close(batch: "b"), "closing it again changes nothing")
        }
    }
}
