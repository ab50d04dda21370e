import Foundation
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

@Suite(.timeLimit(.minutes(2))) struct JobQueueTests {
    @Test func aJobGoesFromThePublicListToDone() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a", batch: "b"))
            #expect(try await fixture.admit() == .admitted(.init(admitted: 1)))
            #expect(try await fixture.places("a") == ["ready"])
            let job = try await fixture.claim()[0]
            #expect(job.id == "a" && job.attempt == 1 && job.stalls == 0 && job.batch == "b" && !job.isCancelled)
            #expect(try await fixture.places("a") == ["lease"])
            #expect(try await fixture.finish(job) == .ok)
            #expect(try await fixture.places("a").isEmpty)
            #expect(try await fixture.count("HLEN", fixture.keys.body) == 0)
            #expect(try await fixture.count("HLEN", fixture.keys.meta) == 0)
            let batch = try await fixture.batch("b")
            #expect(batch["done"] == 1 && batch["total"] == 1 && batch["renders"] == 1)
            #expect(try await fixture.admit() == .empty)
        }
    }

    @Test func completionsAreRefusedWithoutALease() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a", batch: "b"))
            try await fixture.admit()
            let first = try await fixture.claim()[0]
            #expect(try await fixture.finish(first, worker: "other") == .fenced)
            try await fixture.expire(first)
            #expect(try await fixture.queue.sweep() == 1)
            #expect(try await fixture.places("a") == ["ready"])
            #expect(try await fixture.finish(first) == .fenced, "the sweep took the job from its worker")
            let second = try await fixture.claim(worker: "w2")[0]
            #expect(second.attempt == 2 && second.stalls == 1)
            #expect(try await fixture.finish(first) == .fenced)
            #expect(try await fixture.finish(second, worker: "w2") == .ok)
            #expect(try await fixture.finish(second, worker: "w2") == .alreadySettled)
            #expect(try await fixture.batch("b")["done"] == 1)
        }
    }

    @Test func eachCompletionOfACallIsDecidedByItself() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let first = ["a", "b", "c", "d"].map { QueueFixture.job($0) }
            try await fixture.submit(first, to: "one")
            try await fixture.submit([QueueFixture.job("e"), QueueFixture.job("f")], to: "two")
            try await fixture.push(QueueFixture.job("g"))
            try await fixture.admit()
            // The worker is alive: each expired lease counts on its own.
            _ = try await fixture.queue.renew([], worker: "w1", lease: .seconds(60), info: #"{"renewal":5}"#)
            let claimed = try await fixture.claim(10)
            let jobs = Dictionary(uniqueKeysWithValues: claimed.map { ($0.id, $0) })
            func end(_ id: String, _ status: JobOutcome.Status = .done) throws -> JobCompletion {
                let dead = status == .failed ? DeadLetter.Content(code: "x", message: "why", job: "{}") : nil
                let job = try #require(jobs[id])
                let outcome = JobOutcome(id: id, source: id, status: status)
                return JobCompletion(job: job, outcome: outcome, dead: dead, counters: ["renders": 2, "fetches": 1])
            }
            let c = try #require(jobs["c"])
            try await fixture.redis.send(["ZREM", .string(fixture.keys.lease), "one/b"])
            try await fixture.expire(c)
            try await fixture.queue.sweep()
            let results = try await fixture.queue.settle(
                [
                    try end("a"), try end("b"), try end("c"), try end("d", .failed), try end("a"), try end("e"),
                    try end("g"),
                ],
                worker: "w1"
            )
            #expect(results == [.ok, .leaseExpired, .fenced, .ok, .alreadySettled, .ok, .ok])
            let (one, two) = (try await fixture.batch("one"), try await fixture.batch("two"))
            #expect(one["done"] == 1 && one["failed"] == 1 && one["renders"] == 4 && one["fetches"] == 2)
            #expect(two["done"] == 1 && two["failed"] == 0 && two["renders"] == 2)
            #expect(try await fixture.places("d") == ["dead"])
            #expect(try await fixture.places("c") == ["ready"])
            #expect(try await fixture.queue.settle([try end("f")], worker: "w1") == [.ok])
            #expect(try await fixture.batch("two").isFinished)
            let stat = try await fixture.redis.send(["HMGET", .string(fixture.keys.stat), "done", "failed"])
            #expect(stat.array?.map(\.int) == [4, 1])
        }
    }

    /// Fault: jobs that ended together with a job of such a batch were lost, and counted nowhere.
    @Test(arguments: ["batch", "counter", "results"]) func aDamagedBatchTakesNoOtherWithIt(_ what: String) async throws
    {
        try await QueueFixture.run { (fixture) async throws in
            let names = ["one", "two", "three", "four"]
            for name in names {
                try await fixture.submit(
                    [QueueFixture.job("\(name)-1"), QueueFixture.job("\(name)-2")],
                    to: name,
                    policy: BatchPolicy(keepsLedger: true)
                )
            }
            while case .admitted = try await fixture.admit() {}
            let ends = try await fixture.claim(8).map { job in
                JobCompletion(job: job, outcome: JobOutcome(id: job.id, source: job.id, status: .done))
            }
            try #require(ends.count == 8)
            let (batch, ledger) = (RedisArgument.string(fixture.keys.batch("two")), fixture.keys.results("two"))
            switch what {
            case "batch": try await fixture.redis.send(["SET", batch, "no hash"])
            case "counter": try await fixture.redis.send(["HSET", batch, "done", "no number"])
            default: try await fixture.redis.send(["SET", .string(ledger), "no list"])
            }
            let results = try await fixture.queue.settle(ends, worker: "w1")
            #expect(results == ends.map { $0.job.batch == "two" ? .damaged : .ok })
            for name in names where name != "two" {
                let counters = try await fixture.batch(name)
                #expect(counters["done"] == 2 && counters.isFinished, "\(name): \(counters)")
                #expect(try await fixture.count("LLEN", fixture.keys.results(name)) == 2)
            }
            if what == "results" { #expect(try await fixture.batch("two").isFinished, "only its ledger is damaged") }
            for end in ends { #expect(try await fixture.places(end.job.id).isEmpty, "each of them has ended") }
            let stat = try await fixture.redis.send([
                "HMGET", .string(fixture.keys.stat), "done", "damaged_batch_ends",
            ])
            #expect(stat.array?.map(\.int) == [8, 2])
            #expect(try await fixture.queue.settle(ends, worker: "w1") == Array(repeating: .alreadySettled, count: 8))
        }
    }

    /// Fault: the script stopped at the batch after it had delayed the job, and reported to the worker that it had not.
    @Test func aDamagedBatchKeepsNoJobFromBeingPutOff() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.submit([QueueFixture.job("a")], to: "b")
            while case .admitted = try await fixture.admit() {}
            let job = try await fixture.claim()[0]
            try await fixture.redis.send(["SET", .string(fixture.keys.batch("b")), "no hash"])
            let result = try await fixture.queue.retry(
                job,
                worker: "w1",
                after: .seconds(600),
                countsAttempt: true,
                counters: ["renders": 1]
            )
            #expect(result == .damaged)
            #expect(try await fixture.places("a") == ["delay"])
        }
    }

    @Test func theSameWorkerIsFencedByItsOldAttempt() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.admit()
            let first = try await fixture.claim()[0]
            try await fixture.expire(first)
            try await fixture.queue.sweep()
            let second = try await fixture.claim()[0]
            #expect(second.attempt == 2)
            #expect(try await fixture.finish(first) == .fenced)
            let renewed = try await fixture.queue.renew(
                [("a", 1), ("a", 2)],
                worker: "w1",
                lease: .seconds(60),
                info: "{}"
            )
            #expect(renewed.lost == ["a"] && renewed.cancelled.isEmpty)
            #expect(try await fixture.finish(second) == .ok)
        }
    }

    @Test func anExpiredLeaseIsNoLeaseBeforeItIsSweptEither() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.admit()
            let job = try await fixture.claim()[0]
            try await fixture.redis.send(["ZREM", .string(fixture.keys.lease), "a"])
            #expect(try await fixture.finish(job) == .leaseExpired)
            #expect(
                try await fixture.queue.retry(job, worker: "w1", after: .zero, countsAttempt: true, counters: [:])
                    == .leaseExpired
            )
        }
    }

    @Test func retriesComeBackWhenTheyAreDue() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a", batch: "b"))
            try await fixture.admit()
            let first = try await fixture.claim()[0]
            let later = try await fixture.queue.retry(
                first,
                worker: "w1",
                after: .seconds(600),
                countsAttempt: true,
                counters: ["origin_fetches": 1]
            )
            #expect(later == .ok)
            #expect(try await fixture.places("a") == ["delay"])
            #expect(try await fixture.claim().isEmpty)
            try await fixture.redis.send(["ZADD", .string(fixture.keys.delay), "XX", "1", "b/a"])
            let second = try await fixture.claim()[0]
            #expect(second.attempt == 2)
            let again = try await fixture.queue.retry(
                second,
                worker: "w1",
                after: .zero,
                countsAttempt: false,
                counters: [:]
            )
            #expect(again == .ok)
            #expect(try await fixture.claim()[0].counted == 2, "that attempt did not count")
            #expect(try await fixture.batch("b")["origin_fetches"] == 1)
        }
    }

    @Test func releasedJobsGoFirstAndTheirAttemptDoesNotCount() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a"), QueueFixture.job("b"))
            try await fixture.admit()
            let job = try await fixture.claim()[0]
            #expect(job.id == "a")
            #expect(try await fixture.queue.release([("a", 1), ("b", 1)], worker: "w1", leaves: true) == 1)
            let again = try await fixture.claim()[0]
            #expect(again.id == "a" && again.attempt == 2 && again.counted == 1)
            #expect(try await fixture.queue.release([("a", 1)], worker: "other", leaves: false) == 0)
        }
    }

    @Test func prioritiesAndOrderAreKept() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for (id, priority) in [("1", Job.Priority.bulk), ("2", .normal), ("3", .normal), ("4", .high)] {
                try await fixture.push(QueueFixture.job(id, priority: priority))
            }
            try await fixture.admit()
            #expect(try await fixture.claim(4).map(\.id) == ["4", "2", "3", "1"])
        }
    }

    @Test func renewalExtendsLeasesReportsCancelledBatchesAndIsAHeartbeat() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a", batch: "b"))
            try await fixture.admit()
            let job = try await fixture.claim(lease: .seconds(1))[0]
            let before = try await fixture.redis.send(["ZSCORE", .string(fixture.keys.lease), "b/a"]).string ?? ""
            try await fixture.queue.cancel(batch: "b")
            let renewed = try await fixture.queue.renew([("b/a", 1)], worker: "w1", lease: .seconds(99), info: "{}")
            #expect(renewed.lost.isEmpty && renewed.cancelled == ["b/a"])
            let after = try await fixture.redis.send(["ZSCORE", .string(fixture.keys.lease), "b/a"]).string ?? ""
            #expect((Double(after) ?? 0) - (Double(before) ?? 0) > 90_000)
            #expect(try await fixture.queue.workerCount() == 1)
            #expect(try await fixture.finish(job, .cancelled) == .ok)
            try await fixture.queue.release([], worker: "w1", leaves: true)
            #expect(try await fixture.queue.workerCount() == 0)
        }
    }

    @Test func oneSweepsAtATime() async throws {
        try await QueueFixture.run { (fixture) async throws in
            #expect(try await fixture.queue.sweep() == 0)
            #expect(try await fixture.queue.sweep() == nil)
        }
    }

    @Test func aFullRedisRefusesNewJobsAndDrainsTheOldOnes() async throws {
        try await QueueFixture.run(.init(settings: ["maxmemory-policy noeviction"])) { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a", batch: "b"), QueueFixture.job("c", batch: "b"))
            try await fixture.admit()
            try await fixture.redis.send(["CONFIG", "SET", "maxmemory", "1"])
            await #expect { try await fixture.push(QueueFixture.job("d")) } throws: {
                ($0 as? RedisError)?.code == .outOfMemory
            }
            await #expect {
                try await fixture.queue.submit(
                    [QueueFixture.job("e")],
                    to: "b",
                    first: 0,
                    isLast: true,
                    policy: .init(keepsLedger: false),
                    submitter: "me"
                )
            } throws: { ($0 as? RedisError)?.code == .outOfMemory }
            let jobs = try await fixture.claim(2)
            #expect(jobs.count == 2)
            let renewed = try await fixture.queue.renew([("b/a", 1)], worker: "w1", lease: .seconds(9), info: "{}")
            #expect(renewed.lost.isEmpty)
            #expect(try await fixture.finish(jobs[0]) == .ok)
            #expect(try await fixture.finish(jobs[1], .failed) == .ok)
            #expect(try await fixture.places("c") == ["dead"])
        }
    }
}
