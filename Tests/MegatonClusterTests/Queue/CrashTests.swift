import Foundation
import MegatonPipeline
import MegatonRedis
import NIOCore
import Testing

@testable import MegatonCluster

/// Deaths of processes, and the queue's conclusions about the images that they were processing.
@Suite(.timeLimit(.minutes(2))) struct CrashTests {
    private func admit(
        _ ids: [String],
        _ fixture: QueueFixture,
        source: String? = nil,
        window: Int = 1000
    ) async throws {
        for id in ids {
            let url = "https://example.org/\(source ?? id).jpg"
            try await fixture.push(Job(id: id, source: url).json())
        }
        try await fixture.admitAll(ids.count, window: window)
    }

    /// The process dies: all of its leases expire.
    private func kill(_ jobs: [ActiveJob], _ fixture: QueueFixture) async throws {
        for job in jobs { try await fixture.expire(job) }
        try await fixture.queue.sweep(leads: true)
    }

    private func take(
        _ limit: Int,
        _ suspects: JobQueue.SuspectHandling,
        worker: String,
        _ fixture: QueueFixture
    ) async throws -> JobQueue.Claim {
        try await fixture.queue.claim(
            limit,
            running: 0,
            places: limit,
            ignoresShare: true,
            suspects: suspects,
            worker: worker,
            lease: .seconds(60),
            validUntil: .now + .seconds(60)
        )
    }

    @Test func aFirstDeathMakesNoSuspects() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit((0..<64).map { "\($0)" }, fixture)
            let first = try await fixture.claim(64, worker: "w1")
            #expect(first.count == 64)
            try await kill(first, fixture)
            let second = try await take(64, .none, worker: "w2", fixture)
            #expect(second.jobs.count == 64 && second.jobs.allSatisfy { $0.deaths == 1 && !$0.isSuspect })
        }
    }

    @Test func fromTheSecondDeathOnSuspectsRunByThemselvesWhileOthersGoOn() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a", "b"], fixture)
            for worker in ["w1", "w2"] { try await kill(try await fixture.claim(2, worker: worker), fixture) }
            #expect(try await fixture.places("a") == ["ready"])
            try await admit(["c", "d"], fixture)
            let others = try await take(4, .ask, worker: "w3", fixture)
            #expect(Set(others.jobs.map(\.id)) == ["c", "d"], "suspects do not hold up the other jobs")
            #expect(others.wantsIsolation)
            #expect(try await take(4, .ask, worker: "w4", fixture).wantsIsolation, "there are two suspects")
            #expect(try await !take(4, .ask, worker: "w5", fixture).wantsIsolation, "and no third")
            let isolated = try await take(1, .only, worker: "w6", fixture).jobs
            #expect(isolated.map(\.id) == ["a"] && isolated[0].isSuspect)
            #expect(try await fixture.finish(isolated[0], worker: "w6") == .ok)
            #expect(try await take(4, .one, worker: "w7", fixture).jobs.map(\.id) == ["b"])
        }
    }

    /// Fault: jobs that ran beside a crasher accumulated stalls with it.
    @Test func neighboursOfACrasherAreNeverMoreThanSuspects() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["crasher", "good"], fixture)
            for worker in ["w1", "w2"] { try await kill(try await fixture.claim(2, worker: worker), fixture) }
            let crasher = try await take(1, .only, worker: "w3", fixture).jobs
            #expect(crasher.map(\.id) == ["crasher"])
            try await kill(crasher, fixture)
            let next = try await take(2, .none, worker: "w4", fixture).jobs
            #expect(next.map(\.id) == ["crasher"] && next[0].isQuarantined, "it is handed out to be ended")
            let good = try await take(1, .only, worker: "w5", fixture).jobs
            #expect(good.map(\.id) == ["good"] && !good[0].isQuarantined)
        }
    }

    @Test func aProcessWithOneImageInHandDiedOfIt() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit((0..<12).map { "\($0)" }, fixture, source: "crasher")
            for worker in ["w1", "w2"] { try await kill(try await fixture.claim(2, worker: worker), fixture) }
            let third = try await take(4, .one, worker: "w3", fixture).jobs
            #expect(third.count == 1, "no two jobs of a suspected image run at a time")
            #expect(try await take(4, .one, worker: "w4", fixture).jobs.isEmpty)
            try await kill(third, fixture)
            let rest = try await take(20, .none, worker: "w5", fixture).jobs
            #expect(rest.count == 12 && rest.allSatisfy(\.isQuarantined), "also those that never ran")
            try await fixture.push(Job(id: "later", source: "https://example.org/crasher.jpg", batch: "b").json())
            try await fixture.admit()
            #expect(try await take(20, .none, worker: "w5", fixture).jobs.allSatisfy(\.isQuarantined))
        }
    }

    /// Fault: the only job of a worker in one of several shards counted as the cause of its death, although the worker
    /// had jobs in the others.
    @Test func aWorkerOfSeveralShardsMayHaveDiedOfAJobInAnother() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a"], fixture)
            // The last one is a process for suspects, which has one job in all shards.
            let workers: [(name: String, places: Int, suspects: JobQueue.SuspectHandling)] = [
                ("h:1:x", 4, .one), ("h:2:x", 4, .one), ("h:3:x", 4, .one), ("h:4:x", 0, .only),
            ]
            for worker in workers {
                var info = WorkerInfo(concurrency: worker.places)
                info.shards = 3
                _ = try await fixture.queue.renew([], worker: worker.name, lease: .seconds(60), info: info.json)
                let jobs = try await take(1, worker.suspects, worker: worker.name, fixture).jobs
                #expect(jobs.map(\.id) == ["a"] && jobs.allSatisfy { !$0.isQuarantined }, "\(worker.name)")
                #expect(try await fixture.queue.sweep(dead: [worker.name]) == 1)
            }
            #expect(try await take(1, .none, worker: "w", fixture).jobs.map(\.isQuarantined) == [true])
        }
    }

    /// Fault: a suspect that ran for longer than one lease no longer blocked the other jobs of its source.
    @Test func aSuspectThatRunsForLongIsTheOnlyOneOfItsSource() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a", "b"], fixture, source: "slow")
            for worker in ["w1", "w2"] { try await kill(try await fixture.claim(2, worker: worker), fixture) }
            let running = try await take(1, .only, worker: "w3", fixture).jobs
            try #require(running.count == 1)
            // The state just before the end of the first lease.
            let digest = Job(source: "https://example.org/slow.jpg").sourceDigest
            try await fixture.redis.send(["ZADD", .string(fixture.keys.isolating), "XX", "1", .string(digest)])
            let renewed = try await fixture.queue.renew(
                [(running[0].key.text, running[0].attempt)],
                worker: "w3",
                lease: .seconds(60),
                info: "{}"
            )
            #expect(renewed.lost.isEmpty)
            #expect(try await take(1, .only, worker: "w4", fixture).jobs.isEmpty)
        }
    }

    /// Fault: while one of many suspects of a source ran, all other workers started processes that found no job.
    @Test func noProcessIsAskedForWhileAllSuspectedSourcesRun() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a", "b", "c"], fixture, source: "slow")
            for worker in ["w1", "w2"] { try await kill(try await fixture.claim(3, worker: worker), fixture) }
            #expect(try await take(1, .ask, worker: "w3", fixture).wantsIsolation)
            #expect(try await take(1, .only, worker: "w4", fixture).jobs.count == 1)
            for worker in ["w3", "w5"] {
                #expect(try await !take(1, .ask, worker: worker, fixture).wantsIsolation)
            }
            try await admit(["d"], fixture)
            for worker in ["w6", "w7"] {
                try await kill(try await take(1, .none, worker: worker, fixture).jobs, fixture)
            }
            #expect(try await take(1, .ask, worker: "w3", fixture).wantsIsolation, "another source waits")
            #expect(try await take(1, .only, worker: "w8", fixture).jobs.map(\.id) == ["d"])
        }
    }

    /// Fault: many jobs of a running source hid the suspects behind them.
    @Test func manySuspectsOfOneSourceHideNoOther() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit((0..<300).map { "\($0)" }, fixture, source: "slow")
            for worker in ["w1", "w2"] { try await kill(try await fixture.claim(300, worker: worker), fixture) }
            #expect(try await take(1, .only, worker: "w3", fixture).jobs.count == 1)
            try await admit(["other"], fixture)
            for worker in ["w4", "w5"] {
                try await kill(try await take(1, .none, worker: worker, fixture).jobs, fixture)
            }
            var isolated: [String] = []
            for _ in 0..<3 { isolated += try await take(1, .only, worker: "w6", fixture).jobs.map(\.id) }
            #expect(isolated == ["other"])
        }
    }

    /// Fault: a job that only fetched an image cleared the image of suspicion, although it decoded nothing.
    @Test func aFetchSaysNothingOfTheDecoder() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a"], fixture, source: "crasher")
            try await kill(try await fixture.claim(worker: "w1"), fixture)
            let fetch = Job(id: "f", kind: .fetch, source: "https://example.org/crasher.jpg")
            try await fixture.push(fetch.json())
            try await fixture.admitAll(1)
            let jobs = try await take(2, .none, worker: "w2", fixture).jobs
            #expect(jobs.count == 2)
            let fetching = try #require(jobs.first { $0.id == "f" })
            #expect(fetching.deaths == 0)
            #expect(try await fixture.finish(fetching, worker: "w2") == .ok)
            try await kill(jobs.filter { $0.id == "a" }, fixture)
            #expect(try await take(1, .only, worker: "w3", fixture).jobs.map(\.deaths) == [2])
        }
    }

    /// Fault: leases that a dead worker had claimed later expired later, and each step looked like a death of its own.
    @Test func allThatADeadWorkerHeldIsOneDeath() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a", "b", "c"], fixture)
            let jobs = try await fixture.claim(3, worker: "w1")
            try await fixture.expire(jobs[0])
            #expect(try await fixture.queue.sweep(leads: true) == 3)
            #expect(try await take(3, .none, worker: "w2", fixture).jobs.map(\.deaths) == [1, 1, 1])
        }
    }

    @Test func aWorkerThatStillRenewsIsNotDead() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a"], fixture)
            _ = try await fixture.queue.renew([], worker: "w1", lease: .seconds(60), info: #"{"renewal":5}"#)
            try await kill(try await fixture.claim(worker: "w1"), fixture)
            let again = try await take(1, .none, worker: "w1", fixture).jobs
            #expect(again[0].deaths == 0 && again[0].stalls == 1, "the reply to its claim was lost")
        }
    }

    /// Fault: 20,000 leases that ran out at the same moment were swept in one call, which held Redis for 0.16 s.
    @Test func manyDeadWorkersAreSweptInStepsAndEachAsAWhole() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let half = JobQueue.sweptAtOnce / 2
            var jobs: [ActiveJob] = []
            for worker in ["w1", "w2", "w3"] {
                try await admit((0...half).map { "\(worker)-\($0)" }, fixture, window: 2000)
                jobs += try await fixture.claim(half + 1, worker: worker)
            }
            #expect(jobs.count == 3 * (half + 1))
            for job in jobs { try await fixture.expire(job) }
            let first = try await fixture.queue.sweepAsLeader()
            #expect(first.swept == 2 * (half + 1) && first.pause < JobQueue.leadersSweep, "\(first)")
            let second = try await fixture.queue.sweepAsLeader()
            #expect(second.swept == half + 1 && second.pause == JobQueue.leadersSweep, "\(second)")
            let again = try await take(jobs.count, .none, worker: "w4", fixture).jobs
            #expect(again.allSatisfy { $0.deaths == 1 && $0.stalls == 1 }, "no worker was seen twice")
        }
    }

    /// A worker that says how long its leases are: only those are read that it may have.
    @Test func allLeasesOfAWorkerThatSaysHowLongTheyAreEnd() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a", "b", "c"], fixture)
            var info = WorkerInfo(concurrency: 2)
            (info.renewal, info.lease) = (5, 60)
            for worker in ["w1", "w2"] {
                _ = try await fixture.queue.renew([], worker: worker, lease: .seconds(60), info: info.json)
            }
            let held = try await fixture.claim(2, worker: "w1")
            #expect(try await fixture.claim(1, worker: "w2").count == 1)
            let now = try await fixture.queue.now()
            // Its last sign was 58 s ago, and it claimed the second job nine seconds after that.
            try await fixture.redis.send(["ZADD", .string(fixture.keys.workers), .int(now - 58_000), "w1"])
            for (job, end) in zip(held, [now - 1, now + 11_000]) {
                try await fixture.redis.send([
                    "ZADD", .string(fixture.keys.lease), "XX", .int(end), .string(job.key.text),
                ])
            }
            #expect(try await fixture.queue.sweep(leads: true) == 2)
            #expect(try await take(2, .none, worker: "w3", fixture).jobs.map(\.deaths) == [1, 1])
        }
    }

    /// All processes of a machine are gone.
    @Test func anyNumberOfWorkersMayBeReportedDead() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let workers = (1...20).map { "h:\($0):x" }
            try await admit(workers.indices.map { "\($0)" }, fixture)
            for worker in workers {
                _ = try await fixture.queue.renew([], worker: worker, lease: .seconds(60), info: #"{"renewal":5}"#)
                #expect(try await fixture.claim(worker: worker).count == 1)
            }
            #expect(try await fixture.queue.sweep(dead: workers) == 20)
            #expect(try await fixture.queue.workerCount() == 0)
            #expect(try await fixture.count("ZCARD", fixture.keys.lease) == 0)
        }
    }

    /// A worker that was seen a second before the last sweep, which was a minute and a half ago.
    private func renewBeforeAnOutage(_ name: String, _ fixture: QueueFixture) async throws {
        let (worker, now) = (RedisArgument.string(name), try await fixture.queue.now())
        let info = WorkerInfo(host: "h", pid: 1, started: now / 1000 - 600, concurrency: 1, version: "1", renewal: 5)
        _ = try await fixture.queue.renew([], worker: name, lease: .seconds(60), info: info.json)
        try await fixture.redis.send(["ZADD", .string(fixture.keys.workers), .int(now - 91_000), worker])
        try await fixture.redis.send(["HSET", .string(fixture.keys.stat), "swept", .int(now - 90_000)])
    }

    /// Fault: an outage of Redis that was longer than a lease counted as the death of all workers.
    @Test func anOutageOfRedisIsNoDeath() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a", "b"], fixture)
            for worker in ["w1", "w2"] { try await renewBeforeAnOutage(worker, fixture) }
            let first = try await fixture.claim(worker: "w1")
            try await kill(first + (try await fixture.claim(worker: "w2")), fixture)
            #expect(try await fixture.queue.workerCount() == 2, "they may come back")
            let again = try await take(2, .none, worker: "w3", fixture).jobs
            #expect(again.map(\.deaths) == [0, 0] && again.allSatisfy { $0.stalls == 1 })
        }
    }

    @Test func aWorkerThatDoesNotComeBackAfterAnOutageIsDead() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a"], fixture)
            try await renewBeforeAnOutage("w1", fixture)
            let now = try await fixture.queue.now()
            try await fixture.redis.send([
                "HSET", .string(fixture.keys.stat), "swept", .int(now), "away_from", .int(now - 90_000), "away_until",
                .int(now - 15_000),
            ])
            try await kill(try await fixture.claim(worker: "w1"), fixture)
            #expect(try await take(1, .none, worker: "w2", fixture).jobs.map(\.deaths) == [1])
        }
    }

    /// The only worker of a queue died, and its successor, on another machine, sweeps first.
    @Test func aTimeThatOnlyNewWorkersSurvivedCounts() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a"], fixture)
            try await renewBeforeAnOutage("w1", fixture)
            let jobs = try await fixture.claim(worker: "w1")
            let started = try await fixture.queue.now() / 1000
            let info = WorkerInfo(host: "i", pid: 1, started: started, concurrency: 1, version: "1", renewal: 5)
            _ = try await fixture.queue.renew([], worker: "w2", lease: .seconds(60), info: info.json)
            try await kill(jobs, fixture)
            #expect(try await take(1, .none, worker: "w2", fixture).jobs.map(\.deaths) == [1])
        }
    }

    @Test func aProcessThatIsReportedDeadHandsItsJobsOnAtOnce() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a", "b"], fixture)
            _ = try await fixture.queue.renew([], worker: "h:7:x", lease: .seconds(60), info: #"{"renewal":5}"#)
            _ = try await fixture.claim(2, worker: "h:7:x")
            #expect(try await fixture.queue.report(deathOf: 77, on: "h").hadRegistered == false)
            #expect(try await fixture.queue.report(deathOf: 7, on: "h").hadRegistered)
            #expect(try await take(2, .none, worker: "w2", fixture).jobs.map(\.deaths) == [1, 1])
            #expect(try await fixture.queue.workerCount() == 0)
        }
    }

    /// Fault: the death of a process ended the leases of a living worker in another container with the same host name.
    @Test func theDeathOfAProcessIsNoneOfAnotherContainer() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for (name, space) in [("h:7:a", "here"), ("h:7:b", "there")] {
                var info = WorkerInfo(host: "h", pid: 7, started: 1, concurrency: 1, version: "1", renewal: 5)
                info.space = space
                _ = try await fixture.queue.renew([], worker: name, lease: .seconds(60), info: info.json)
            }
            #expect(try await fixture.queue.report(deathOf: 7, on: "h", in: "elsewhere").hadRegistered == false)
            #expect(try await fixture.queue.report(deathOf: 7, on: "h", in: "here").hadRegistered)
            let left = try await fixture.redis.send(["ZRANGE", .string(fixture.keys.workers), "0", "-1"]).array ?? []
            #expect(left.map(\.string) == ["h:7:b"])
        }
    }

    /// A supervisor restarts a worker long before the leases of its predecessor expire.
    @Test func aWorkerThatStartsReportsThePredecessorsThatAreGone() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a", "b", "c"], fixture)
            for (pid, space) in [(7, "here"), (8, "here"), (9, "elsewhere")] {
                let info = WorkerInfo(
                    host: "h",
                    pid: pid,
                    started: 0,
                    concurrency: 1,
                    version: "1",
                    renewal: 5,
                    space: space
                ).json
                _ = try await fixture.queue.renew([], worker: "h:\(pid):x", lease: .seconds(60), info: info)
                #expect(try await fixture.claim(worker: "h:\(pid):x").count == 1)
            }
            #expect(try await fixture.queue.reportDead(in: "here") { $0 != 8 } == 1)
            #expect(try await take(3, .none, worker: "w", fixture).jobs.map(\.id) == ["a"])
            #expect(ProcessSpace.current != nil && !ProcessSpace.isGone(getpid()))
        }
    }

    @Test func aJobThatIsDoneIsNoLongerSuspected() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a", "b", "c"], fixture, source: "popular")
            for worker in ["w1", "w2"] {
                let jobs = try await fixture.claim(1, worker: worker)
                #expect(jobs.count == 1)
                try await kill(jobs, fixture)
            }
            let suspect = try await take(3, .only, worker: "w3", fixture).jobs
            #expect(suspect.count == 1)
            #expect(try await fixture.finish(suspect[0], worker: "w3") == .ok)
            let rest = try await take(3, .none, worker: "w4", fixture).jobs
            #expect(rest.count == 2 && rest.allSatisfy { $0.deaths == 0 })
        }
    }

    @Test func requeueingAndRetryingForgetTheDeaths() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let job = Job(id: "a", source: "https://example.org/a.jpg")
            try await admit(["a"], fixture)
            for worker in ["w1", "w2"] { try await kill(try await fixture.claim(worker: worker), fixture) }
            try await kill(try await take(1, .only, worker: "w3", fixture).jobs, fixture)
            let poisoned = try await take(1, .none, worker: "w4", fixture).jobs[0]
            #expect(poisoned.isQuarantined)
            let dead = DeadLetter.Content(
                code: "poison",
                message: "m",
                job: String(decoding: job.json(), as: UTF8.self)
            )
            let end = JobCompletion(job: poisoned, outcome: JobOutcome(source: job.source, status: .failed), dead: dead)
            #expect(try await fixture.queue.settle([end], worker: "w4") == [.ok])
            #expect(try await fixture.queue.requeue(try await fixture.queue.deadLetters(offset: 0, limit: 1)) == 1)
            try await fixture.admit()
            #expect(try await fixture.claim(worker: "w5").map(\.deaths) == [0])
            try await fixture.redis.send([
                "ZADD", .string(fixture.keys.crashes), "99999999999999", .string(job.sourceDigest),
            ])
            try await fixture.queue.forgetDeaths(of: [job])
            #expect(try await fixture.count("ZCARD", fixture.keys.crashes) == 0)
        }
    }

    @Test func deathsExpire() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a"], fixture)
            for worker in ["w1", "w2"] { try await kill(try await fixture.claim(worker: worker), fixture) }
            let digest = Job(source: "https://example.org/a.jpg").sourceDigest
            let score = try await fixture.redis.send(["ZSCORE", .string(fixture.keys.crashes), .string(digest)]).string
            let expiry = (Double(score ?? "") ?? 0) / 8 - Double(try await fixture.queue.now())
            #expect(abs(expiry / 1000 - JobQueue.suspicion.inSeconds) < 60)
            try await fixture.redis.send(["ZADD", .string(fixture.keys.crashes), "XX", "10", .string(digest)])
            #expect(try await take(1, .none, worker: "w3", fixture).jobs.map(\.deaths) == [0])
        }
    }

    @Test func renewalNamesJobsWhoseImageIsQuarantinedMeanwhile() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a", "b"], fixture)
            _ = try await fixture.claim(2)
            let digest = Job(source: "https://example.org/a.jpg").sourceDigest
            let score = (try await fixture.queue.now() + 60_000) * 8 + 3
            try await fixture.redis.send(["ZADD", .string(fixture.keys.crashes), .int(score), .string(digest)])
            let renewed = try await fixture.queue.renew(
                [("a", 1), ("b", 1)],
                worker: "w1",
                lease: .seconds(60),
                info: "{}"
            )
            #expect(renewed.quarantined == ["a"] && renewed.lost.isEmpty)
        }
    }

    @Test func aSuspectOfACancelledBatchEndsWithoutAPlaceOfItsOwn() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a", batch: "b"))
            try await fixture.admit()
            for worker in ["w1", "w2"] { try await kill(try await fixture.claim(worker: worker), fixture) }
            try await fixture.queue.cancel(batch: "b")
            let jobs = try await take(1, .none, worker: "w3", fixture).jobs
            #expect(jobs.map(\.isCancelled) == [true])
        }
    }

    @Test func theAuditKnowsSuspects() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await admit(["a", "b"], fixture)
            for worker in ["w1", "w2"] { try await kill(try await fixture.claim(2, worker: worker), fixture) }
            #expect(try await QueueAudit(queue: fixture.queue).run().count == 0)
            try await fixture.redis.send(["LPUSH", .string(fixture.keys.suspects), "a", "nobody"])
            let report = try await QueueAudit(queue: fixture.queue).run(repair: true)
            #expect(report.faults == [.twoStates: 1, .withoutJob: 1])
            #expect(try await QueueAudit(queue: fixture.queue).run().count == 0)
        }
    }
}
