import Foundation
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

/// Manual administration of a queue, and its automatic cleanup of ended jobs.
@Suite(.timeLimit(.minutes(2))) struct AdministrationTests {
    // MARK: - Pausing

    // Fault: they became ready without a limit, and after the pause no intake was read until all of them had run.
    @Test func delayedJobsStayWhereTheyAreWhileTheQueueIsPaused() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let queue = fixture.queue
            for number in 0..<20 { try await fixture.push(QueueFixture.job("j\(number)")) }
            try await fixture.admitAll(20)
            for job in try await fixture.claim(20) {
                _ = try await queue.retry(job, worker: "w1", after: .zero, countsAttempt: true, counters: [:])
            }
            try await queue.set(.paused, to: true)
            #expect(try await fixture.claim(8).isEmpty)
            _ = try await queue.sweep(leads: true)
            #expect(try await fixture.count("ZCARD", fixture.keys.delay) == 20)
            #expect(try await fixture.count("LLEN", fixture.keys.ready(.normal)) == 0)
            try await queue.set(.paused, to: false)
            #expect(try await fixture.claim(8).isEmpty == false)
        }
    }

    @Test func aPausedQueueGivesNothingOutAndFinishesWhatRuns() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a"), QueueFixture.job("b"))
            try await fixture.admit()
            let running = try await fixture.claim()[0]
            try await fixture.queue.set(.paused, to: true)
            #expect(try await fixture.claim().isEmpty)
            #expect(try await fixture.finish(running) == .ok)
            try await fixture.queue.set(.paused, to: false)
            #expect(try await fixture.claim().map(\.id) == ["b"])
        }
    }

    @Test func resumingWakesTheIdle() async throws {
        try await QueueFixture.run { (fixture) async throws in
            _ = try await fixture.queue.renew([], worker: "w1", lease: .seconds(60), info: "{}")
            try await fixture.queue.set(.paused, to: true)
            try await fixture.queue.set(.paused, to: false)
            #expect(try await fixture.count("LLEN", fixture.keys.wake) == 1)
            #expect(try await fixture.count("LLEN", fixture.keys.intakeWake) == 1)
        }
    }

    @Test func aDrainingQueueAdmitsNothingAndKeepsWhatIsPushed() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.admit()
            try await fixture.push(QueueFixture.job("b"))
            try await fixture.queue.set(.drain, to: true)
            #expect(try await fixture.admit() == .draining)
            #expect(try await fixture.claim(5).map(\.id) == ["a"])
            #expect(try await fixture.count("LLEN", fixture.keys.jobs) == 1)
            try await fixture.queue.set(.drain, to: false)
            #expect(try await fixture.admit() == .admitted(.init(admitted: 1)))
        }
    }

    // MARK: - Dead letters

    private func bury(_ ids: [String], _ fixture: QueueFixture) async throws {
        for id in ids { try await fixture.push(QueueFixture.job(id, batch: "b")) }
        try await fixture.admit()
        for job in try await fixture.claim(ids.count) {
            let dead = DeadLetter.Content(
                code: "not_found",
                message: "gone",
                attempts: 1,
                worker: "w1",
                batch: "b",
                job: String(decoding: job.json, as: UTF8.self)
            )
            let outcome = JobOutcome(id: job.id, source: "s", status: .failed)
            _ = try await fixture.queue.settle([JobCompletion(job: job, outcome: outcome, dead: dead)], worker: "w1")
        }
    }

    @Test func theDeadAreListedWithReasonAndTime() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await bury(["a", "b"], fixture)
            let letters = try await fixture.queue.deadLetters(offset: 0, limit: 10)
            #expect(Set(letters.map(\.id)) == ["a", "b"])
            #expect(letters.allSatisfy { $0.content.code == "not_found" && $0.content.worker == "w1" && $0.died > 1e9 })
            #expect(try await fixture.queue.deadLetters(offset: 1, limit: 10).count == 1)
            #expect(try await fixture.queue.deadLetter(id: "a")?.content.batch == "b")
            #expect(try await fixture.queue.deadLetter(id: "nobody") == nil)
        }
    }

    @Test func aRequeuedJobIsDoneOnceAndItsOldBatchStaysAsItWas() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await bury(["a"], fixture)
            let letters = try await fixture.queue.deadLetters(offset: 0, limit: 10)
            #expect(try await fixture.queue.requeue(letters) == 1)
            #expect(try await fixture.queue.requeue(letters) == 0, "a repetition pushes nothing")
            #expect(try await fixture.places("a").isEmpty)
            try await fixture.admit()
            let job = try await fixture.claim()[0]
            #expect(job.id == "a" && job.attempt == 1 && job.batch.isEmpty)
            #expect(try await fixture.finish(job) == .ok)
            let batch = try await fixture.batch("b")
            #expect(batch["total"] == 1 && batch["failed"] == 1 && batch["done"] == 0)
        }
    }

    @Test func anInvalidJobCannotBeRequeuedButDropped() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(Data("{".utf8))
            try await fixture.admit()
            let letters = try await fixture.queue.deadLetters(offset: 0, limit: 10)
            #expect(try await fixture.queue.requeue(letters) == 0)
            #expect(try await fixture.queue.drop(letters) == 1)
            #expect(try await fixture.queue.drop(letters) == 0)
            #expect(try await fixture.count("HLEN", fixture.keys.deadInfo) == 0)
        }
    }

    /// Fault: the letter was deleted before the job was pushed.
    @Test func aJobThatCannotBePushedStaysDead() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await bury(["a"], fixture)
            let letters = try await fixture.queue.deadLetters(offset: 0, limit: 10)
            try await fixture.redis.send(["SET", .string(fixture.keys.jobs), "no list"])
            await #expect { _ = try await fixture.queue.requeue(letters) } throws: {
                "\($0)".contains("WRONGTYPE")
            }
            #expect(try await fixture.queue.deadLetters(offset: 0, limit: 10) == letters)
            try await fixture.redis.send(["DEL", .string(fixture.keys.jobs)])
            #expect(try await fixture.queue.requeue(letters) == 1)
            #expect(try await fixture.count("LLEN", fixture.keys.jobs) == 1)
        }
    }

    /// Fault: the intake cut a job that its own id and batch had made too large, and its letter was gone.
    @Test func aJobThatIsTooLargeForTheIntakeStaysDead() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let prefix = "data:image/png;base64,"
            let room = Job.maximumSize - Job(id: "large", source: prefix).json().count
            for (id, size) in [("small", 10), ("large", room)] {
                let source = prefix + String(repeating: "A", count: size)
                let job = String(decoding: Job(id: id, source: source).json(), as: UTF8.self)
                let content = DeadLetter.Content(code: "not_found", message: "gone", batch: "b", job: job)
                try await addLetter(id, ByteBuffer(bytes: try JSONEncoder().encode(content)), fixture)
            }
            let letters = try await fixture.queue.deadLetters(offset: 0, limit: 9)
            let requeued = try await fixture.queue.requeue(letters)
            #expect(letters.count == 2 && requeued == 1)
            #expect(try await fixture.queue.deadLetters(offset: 0, limit: 9).map(\.id) == ["large"])
        }
    }

    private func addLetter(_ id: String, _ info: ByteBuffer, _ fixture: QueueFixture) async throws {
        let number = try await fixture.queue.deadCount()
        try await fixture.redis.send(["ZADD", .string(fixture.keys.dead), .int(number + 1), .string(id)])
        try await fixture.redis.send(["HSET", .string(fixture.keys.deadInfo), .string(id), .buffer(info)])
    }

    /// Fault: one call of a script pushed 50 jobs, each of which may have 1 MiB.
    @Test func aCallRequeuesALimitedNumberOfBytes() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let sizes = [10, 300_000, 300_000, 600_000] + Array(repeating: 10, count: 20)
            for (number, size) in sizes.enumerated() {
                let source = "data:image/png;base64," + String(repeating: "A", count: size)
                let job = String(decoding: Job(id: "j\(number)", source: source).json(), as: UTF8.self)
                let content = DeadLetter.Content(code: "not_found", message: "gone", job: job)
                let info = ByteBuffer(bytes: try JSONEncoder().encode(content))
                try await addLetter("j\(number)", info, fixture)
            }
            let letters = try await fixture.queue.deadLetters(offset: 0, limit: 50)
            // The server does not know the script before.
            #expect(try await fixture.queue.requeue([letters[0]]) == 1)
            let before = try await fixture.redis.calls("evalsha")
            #expect(try await fixture.queue.requeue(letters) == 23)
            #expect(try await fixture.redis.calls("evalsha") == before + 4)
            #expect(try await fixture.count("LLEN", fixture.keys.jobs) == 24)
            #expect(try await fixture.queue.deadCount() == 0)
        }
    }

    /// Fault: the reply with a page of large letters was too large to be read, so that none was listed.
    @Test func aPageOfTheDeadHasALimitedNumberOfBytes() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for (number, size) in [3, 3, 3, 9].enumerated() {
                try await addLetter("j\(number)", ByteBuffer(repeating: 0x20, count: size << 20), fixture)
            }
            for (offset, page) in [(0, ["j0", "j1"]), (2, ["j2"]), (3, ["j3"]), (4, [])] {
                let letters = try await fixture.queue.deadLetters(offset: offset, limit: 50)
                #expect(letters.map(\.id) == page)
            }
        }
    }

    @Test func aFullRedisRefusesNewWorkAndIsWorkedOff() async throws {
        let options = RedisServerProcess.Options(settings: ["maxmemory-policy noeviction"])
        try await QueueFixture.run(options) { (fixture) async throws in
            for id in ["a", "b", "c", "d"] { try await fixture.push(QueueFixture.job(id, batch: "b")) }
            try await fixture.admit()
            try await bury(["dead"], fixture)
            try await fixture.redis.send(["CONFIG", "SET", "maxmemory", "1"])
            // New jobs are refused with a clear error.
            await #expect { try await fixture.push(QueueFixture.job("e")) } throws: {
                ($0 as? RedisError)?.code == .outOfMemory
            }
            await #expect { try await fixture.submit([QueueFixture.job("x", batch: "c")], to: "c") } throws: {
                ($0 as? RedisError)?.code == .outOfMemory
            }
            let letters = try await fixture.queue.deadLetters(offset: 0, limit: 10)
            await #expect { _ = try await fixture.queue.requeue(letters) } throws: {
                ($0 as? RedisError)?.code == .outOfMemory
            }
            // Jobs already there run to their end.
            let jobs = try await fixture.claim(4)
            let (lost, _, _, _) = try await fixture.queue.renew(
                jobs.map { ($0.key.text, $0.attempt) },
                worker: "w1",
                lease: .seconds(60),
                info: "{}"
            )
            #expect(lost.isEmpty)
            #expect(try await fixture.finish(jobs[0]) == .ok)
            #expect(try await fixture.finish(jobs[1], .failed) == .ok)
            #expect(
                try await fixture.queue.retry(
                    jobs[2],
                    worker: "w1",
                    after: .zero,
                    countsAttempt: true,
                    counters: [:]
                ) == .ok
            )
            try await fixture.queue.release([(jobs[3].key.text, jobs[3].attempt)], worker: "w1", leaves: true)
            try await fixture.queue.sweep()
            for job in try await fixture.claim(4) { #expect(try await fixture.finish(job) == .ok) }
            #expect(try await fixture.queue.alive() == 0)
            #expect(try await fixture.queue.drop(letters) == 1)
            try await fixture.redis.send(["CONFIG", "SET", "maxmemory", "0"])
            try await fixture.push(QueueFixture.job("e"))
            #expect(try await fixture.admit() == .admitted(.init(admitted: 1)))
        }
    }

    @Test func onlySoManyHostsAreCountedOneByOne() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let key = RedisArgument.string(fixture.keys.statHosts)
            for number in 1...5 { try await fixture.redis.send(["HSET", key, "host\(number)", .int(number)]) }
            try await fixture.queue.forgetRareHosts(above: 3)
            #expect(try await fixture.count("HLEN", fixture.keys.statHosts) == 5, "not for a few more")
            try await fixture.queue.forgetRareHosts(above: 2)
            let left = try await fixture.redis.send(["HKEYS", key]).array?.compactMap(\.string) ?? []
            #expect(Set(left) == ["host4", "host5"])
        }
    }

    /// Fault: one command read the counts of all hosts, and one deleted all rare ones, while the leader waited.
    @Test func rareHostsAreForgottenInPages() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let key = RedisArgument.string(fixture.keys.statHosts)
            let entries = (1...3000).flatMap { [RedisArgument.string("host\($0)"), .int($0)] }
            try await fixture.redis.send(RedisCommand(["HSET", key] + entries))
            let frequent = Set((2501...3000).map { "host\($0)" })
            func left() async throws -> Set<String> {
                Set((try await fixture.redis.send(["HKEYS", key]).array ?? []).compactMap(\.string))
            }
            try await fixture.redis.send(["CONFIG", "RESETSTAT"])
            try await fixture.queue.forgetRareHosts(above: 500, pages: 1)
            var hosts = try await left()
            #expect((2000..<3000).contains(hosts.count) && hosts.isSuperset(of: frequent), "\(hosts.count)")
            try await fixture.queue.forgetRareHosts(above: 500)
            hosts = try await left()
            #expect(hosts == frequent)
            let info = try await fixture.redis.send(["INFO", "commandstats"]).string ?? ""
            #expect(!info.contains("cmdstat_hgetall:"))
            let deletions = info.firstMatch(of: #/cmdstat_hdel:calls=(\d+)/#)?.1
            #expect(deletions.flatMap { Int($0) } ?? 0 >= 3, "each deletes at most 1000")
        }
    }

    // MARK: - Batches

    @Test func aDeduplicatingBatchDoesTheSameOnce() async throws {
        try await QueueFixture.run { (fixture) async throws in
            func job(_ id: String, _ source: String, width: Int) -> Data {
                Job(id: id, source: source, renditions: [Rendition(width: width)], batch: "b").json()
            }
            let jobs = [
                job("1", "https://h/a", width: 10), job("2", "https://h/a", width: 10),
                job("3", "https://h/a", width: 20), job("4", "https://h/b", width: 10),
            ]
            try await fixture.submit(jobs, to: "b", policy: .init(keepsLedger: true, deduplicates: true))
            #expect(try await fixture.admit() == .admitted(.init(admitted: 3, duplicates: 1)))
            let outcomes = try await fixture.results(of: "b", kept: 0, limit: 10)
            let outcome = try JSONDecoder().decode(JobOutcome.self, from: outcomes[0])
            #expect(outcome.status == .deduplicated && outcome.id == "2" && outcome.source == "https://h/a")
            for job in try await fixture.claim(3) { _ = try await fixture.finish(job) }
            let batch = try await fixture.batch("b")
            #expect(batch.isFinished && batch["done"] == 3 && batch["deduplicated"] == 1 && batch["total"] == 4)
            #expect(try await fixture.count("EXISTS", fixture.keys.known("b")) == 0, "what it saw goes with its end")
            // Another batch does not share its deduplication, and without the policy there is none.
            try await fixture.submit(
                jobs.map { Data(String(decoding: $0, as: UTF8.self).replacing(#""b""#, with: #""c""#).utf8) },
                to: "c"
            )
            #expect(try await fixture.admit() == .admitted(.init(admitted: 4)))
        }
    }

    @Test func aHeavierBatchGetsMore() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for (name, weight) in [("heavy", 9), ("light", 1)] {
                let jobs = (0..<100).map { QueueFixture.job("\(name)\($0)", batch: name) }
                try await fixture.submit(jobs, to: name, policy: .init(weight: weight))
            }
            _ = try await fixture.admit(chunk: 60)  // A full chunk is admitted in halves.
            let (heavy, light) = (try await fixture.batch("heavy")["total"], try await fixture.batch("light")["total"])
            #expect(heavy + light == 30 && heavy >= 4 * light && light >= 2, "\(heavy) and \(light)")
        }
    }

    @Test func theSharesHoldAlsoWhereThereIsRoomForOneJobAtATime() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for (name, weight) in [("aaa", 1), ("zzz", 3)] {
                let jobs = (0..<60).map { QueueFixture.job("\(name)\($0)", batch: name) }
                try await fixture.submit(jobs, to: name, policy: .init(weight: weight))
            }
            for id in 0..<60 { try await fixture.push(QueueFixture.job("public\(id)")) }
            for _ in 0..<50 { try await fixture.admit(chunk: 1) }
            #expect(try await fixture.batch("aaa")["total"] == 10)
            #expect(try await fixture.batch("zzz")["total"] == 30)
            #expect(try await fixture.count("LLEN", fixture.keys.jobs) == 50)
        }
    }

    @Test func aJobOfACancelledBatchIsNotPutOff() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.submit([QueueFixture.job("a", batch: "b")], to: "b")
            try await fixture.admit()
            let job = try await fixture.claim()[0]
            try await fixture.queue.cancel(batch: "b")
            let result = try await fixture.queue.retry(
                job,
                worker: "w1",
                after: .seconds(600),
                countsAttempt: true,
                counters: [:]
            )
            #expect(result == .ok)
            #expect(try await fixture.places("a") == ["ready"])
            #expect(try await fixture.claim()[0].isCancelled)
        }
    }

    /// Fault: the turns of an intake whose batch was cancelled were never forgotten.
    @Test func aCancelledBatchLeavesNoTurns() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.submit([QueueFixture.job("a", batch: "b"), QueueFixture.job("c", batch: "b")], to: "b")
            try await fixture.redis.send(["HSET", .string(fixture.keys.credit), "b", "5", "other", "5"])
            try await fixture.queue.cancel(batch: "b")
            #expect(try await fixture.queue.forgetBatches(endedFor: .zero, limit: 10).forgotten == 1)
            #expect(try await fixture.redis.send(["HKEYS", .string(fixture.keys.credit)]).array?.count == 1)
        }
    }

    /// Fault: one call ended thousands of jobs, and all other clients waited.
    @Test func aCancellationEndsSomeJobsAtATime() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let jobs = (0..<1201).map { QueueFixture.job("j\($0)", batch: "b") }
            try await fixture.submit(jobs, to: "b", policy: .init(keepsLedger: true))
            let before = try await fixture.scriptCalls()
            try await fixture.queue.cancel(batch: "b")
            #expect(try await fixture.scriptCalls() - before >= 3)
            #expect(try await fixture.batch("b")["cancelled"] == 1201)
            #expect(try await fixture.batch("b")["outcomes"] == 1201)
        }
    }

    @Test func aBatchThatIsNeverClosedIsForgottenToo() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a", batch: "open"))
            try await fixture.admit()
            #expect(try await fixture.queue.forgetBatches(endedFor: .zero, limit: 10).forgotten == 0, "a job is left")
            for job in try await fixture.claim() { _ = try await fixture.finish(job) }
            #expect(try await fixture.queue.forgetBatches(endedFor: .seconds(60), limit: 10).forgotten == 0)
            #expect(try await fixture.queue.forgetBatches(endedFor: .zero, limit: 10).forgotten == 1)
        }
    }

    @Test func aCancelledBatchDoesNotWaitForWhatIsPutOff() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.submit([QueueFixture.job("a", batch: "b")], to: "b")
            try await fixture.submit([QueueFixture.job("z", batch: "c")], to: "c")
            try await fixture.admit()
            for job in try await fixture.claim(2) {
                let result = try await fixture.queue.retry(
                    job,
                    worker: "w1",
                    after: .seconds(600),
                    countsAttempt: true,
                    counters: [:]
                )
                #expect(result == .ok)
            }
            try await fixture.queue.cancel(batch: "b")
            #expect(try await fixture.places("a") == ["ready"])
            #expect(try await fixture.places("z") == ["delay"], "another batch's job is left alone")
            let job = try await fixture.claim()[0]
            #expect(job.isCancelled)
            _ = try await fixture.finish(job, .cancelled)
            #expect(try await fixture.batch("b").isFinished)
            await #expect { try await fixture.queue.cancel(batch: "nobody's") } throws: {
                ($0 as? RedisError)?.code == .noBatch
            }
        }
    }

    @Test func aSubmitterCancelsOnlyABatchOfItsOwn() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let own = BatchSubmitter(queue: fixture.queue, batch: "b", policy: .init(keepsLedger: true))
            #expect(try await !own.cancel(), "nothing was pushed")
            for id in ["a", "c"] { try await own.add(QueueFixture.job(id)) }
            try await own.flush()
            try await fixture.admit()
            let delayed = try await fixture.claim()[0]
            let result = try await fixture.queue.retry(
                delayed,
                worker: "w1",
                after: .seconds(60),
                countsAttempt: true,
                counters: [:]
            )
            #expect(result == .ok)
            let other = BatchSubmitter(queue: fixture.queue, batch: "b")
            await #expect { try await other.close() } throws: { ($0 as? RedisError)?.code == .batchExists }
            #expect(try await !other.cancel(), "it is the batch of another submitter")
            #expect(try await fixture.count("SCARD", fixture.keys.cancelled) == 0)
            #expect(try await fixture.count("ZCARD", fixture.keys.delay) == 1, "its delayed job stays delayed")
            #expect(try await own.cancel())
            #expect(try await fixture.count("SCARD", fixture.keys.cancelled) == 1)
            #expect(try await fixture.count("ZCARD", fixture.keys.delay) == 0)
        }
    }

    @Test func anEndedBatchIsForgottenInTimeAndARunningOneNever() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.submit([QueueFixture.job("a", batch: "b")], to: "b", policy: .init(keepsLedger: true))
            try await fixture.admit()
            #expect(try await fixture.queue.forgetBatches(endedFor: .zero, limit: 10).forgotten == 0)
            for job in try await fixture.claim() { _ = try await fixture.finish(job) }
            #expect(try await fixture.queue.forgetBatches(endedFor: .seconds(3600), limit: 10).forgotten == 0)
            #expect(try await fixture.queue.batches(limit: 10).map(\.name) == ["b"])
            #expect(try await fixture.queue.forgetBatches(endedFor: .zero, limit: 10).forgotten == 1)
            #expect(try await fixture.queue.batches(limit: 10).isEmpty)
            for key in [fixture.keys.batch("b"), fixture.keys.results("b")] {
                #expect(try await fixture.count("EXISTS", key) == 0)
            }
        }
    }
}
