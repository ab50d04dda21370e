import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster
@testable import MegatonCore

/// Jobs that wait for their host, on a real Redis; time is simulated by changing the turns of hosts.
@Suite(.timeLimit(.minutes(2))) struct HeldJobTests {
    private let slow = "slow.example:443"

    private func job(_ id: String, on host: String = "slow.example", priority: Job.Priority = .normal) -> Data {
        Job(id: id, source: "https://\(host)/\(id).jpg", batch: "b", priority: priority).json()
    }

    private func turn(wait: Double = 60, interval: Double = 0.1) -> HostTurn {
        HostTurn(host: slow, wait: wait, interval: interval)
    }

    private func hold(_ job: ActiveJob, _ turn: HostTurn, _ fixture: QueueFixture) async throws -> SettleResult {
        try await fixture.queue.hold(job, worker: "w1", for: turn, counters: [:])
    }

    /// Jobs `s0` and so on, all of which wait for the slow host.
    private func holdJobs(_ count: Int, _ fixture: QueueFixture) async throws {
        for index in 0..<count { try await fixture.push(job("s\(index)")) }
        try await fixture.admitAll(count)
        _ = try await hold(try await fixture.claim()[0], turn(), fixture)
        #expect(try await fixture.claim(300).isEmpty)
    }

    /// The turn of the host has come.
    private func reachTurn(_ fixture: QueueFixture) async throws {
        let now = try await fixture.queue.now()
        try await fixture.redis.send(["ZADD", .string(fixture.keys.held), "XX", .int(Int(now)), .string(slow)])
    }

    /// Fault: the jobs of a blocked host were claimed, refused and put off one by one.
    @Test func jobsOfAHeldHostAreNotClaimed() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for index in 0..<5 { try await fixture.push(job("s\(index)")) }
            try await fixture.push(job("f", on: "fast.example"))
            try await fixture.admitAll(6)
            let first = try await fixture.claim()[0]
            #expect(try await hold(first, turn(), fixture) == .ok)
            #expect(try await fixture.places("s0") == ["held"])
            #expect(try await fixture.claim(10).map(\.id) == ["f"], "only the job of the other host")
            #expect(try await fixture.held().map { JobKey($0.id).id } == ["s0", "s1", "s2", "s3", "s4"])
            try await fixture.push(job("s5"))
            try await fixture.admitAll(1)
            #expect(try await fixture.places("s5") == ["held"], "it never was ready")
            #expect(try await fixture.claim(10).isEmpty)
        }
    }

    @Test func aTurnOfTheHostMakesAJobReadyThatIsClaimedThen() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for index in 0..<3 { try await fixture.push(job("s\(index)")) }
            try await fixture.admitAll(3)
            let first = try await fixture.claim()[0]
            _ = try await hold(first, turn(interval: 60), fixture)
            #expect(try await fixture.claim(10).isEmpty)
            try await reachTurn(fixture)
            let second = try await fixture.claim(10)
            #expect(second.map(\.id) == ["s0"], "one at a time, the first one first")
            #expect(second[0].attempt == 2 && second[0].counted == 1, "the attempt that was refused does not count")
            #expect(try await fixture.finish(second[0]) == .ok)
            #expect(try await fixture.finish(first) == .alreadySettled)
        }
    }

    @Test func theSweepOfTheLeaderWakesWorkersForATurn() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(job("s"))
            try await fixture.admit()
            _ = try await hold(try await fixture.claim()[0], turn(), fixture)
            try await reachTurn(fixture)
            try await fixture.redis.send(["DEL", .string(fixture.keys.wake)])
            try await fixture.queue.sweep(leads: true)
            #expect(try await fixture.places("s") == ["ready"])
            #expect(try await fixture.count("LLEN", fixture.keys.wake) == 1)
            // The host is held until its next turn, as jobs may come before.
            try await reachTurn(fixture)
            try await fixture.queue.sweep(leads: true)
            for key in [fixture.keys.holding, fixture.keys.held, fixture.keys.pace, fixture.keys.heldBytes] {
                #expect(try await fixture.count("EXISTS", key) == 0, "nothing is left of a host without jobs: \(key)")
            }
        }
    }

    /// Fault: with each sweep, hundreds of jobs of a host whose turn had come were ready, in front of all others, and
    /// no intake was read until they had ended.
    @Test(arguments: [0, 2, 5]) func aSweepMakesNoMoreReadyThanPlacesAreFree(running: Int) async throws {
        try await QueueFixture.run { (fixture) async throws in
            for index in 0..<running { try await fixture.push(job("f\(index)", on: "fast.example")) }
            if running > 0 { try await fixture.admitAll(running) }
            #expect(try await fixture.claim(running + 1).count == running)
            try await holdJobs(20, fixture)
            let now = try await fixture.queue.now()
            let (keys, worker) = (fixture.keys, #"{"concurrency":5}"#)
            try await fixture.redis.send(["ZADD", .string(keys.workers), .int(Int(now)), "w1"])
            try await fixture.redis.send(["HSET", .string(keys.workerInfo), "w1", .string(worker)])
            try await fixture.redis.send(["DEL", .string(keys.places), .string(keys.wake)])
            // The turn came a second ago: all could have been asked for by now.
            for _ in 0..<3 {
                try await fixture.redis.send(["ZADD", .string(keys.held), "XX", .int(Int(now) - 1000), .string(slow)])
                try await fixture.queue.sweep(leads: true)
            }
            #expect(try await fixture.count("LLEN", keys.ready(.normal)) == 5 - running)
            if running == 5 {
                // Jobs with long fetches have left their places, which a claim finds out.
                #expect(try await fixture.count("LLEN", keys.wake) == 1)
                // A worker that ends a job takes the next one.
                #expect(try await fixture.claim(1).count == 1)
            }
        }
    }

    /// Fault: while the turn of a host had come, each place that became free had one of its jobs, and no other.
    @Test func heldAndFreshJobsShareThePlacesThatBecomeFree() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await holdJobs(10, fixture)
            for index in 0..<10 { try await fixture.push(job("f\(index)", on: "fast.example")) }
            try await fixture.admitAll(10)
            var ids: [String] = []
            for _ in 0..<8 {
                try await reachTurn(fixture)
                ids += try await fixture.claim(1).map { JobKey($0.id).id }
            }
            #expect(ids.count == 8 && ids.count { $0.hasPrefix("f") } == 4, "\(ids)")
        }
    }

    /// Fault: turns and due jobs waited for the next sweep, up to a quarter of a second.
    @Test func theLeaderSweepsAgainAtTheNextTurn() async throws {
        try await QueueFixture.run { (fixture) async throws in
            #expect(try await fixture.queue.sweepAsLeader().pause == JobQueue.leadersSweep, "nothing waits")
            try await fixture.push(job("s"))
            try await fixture.admit()
            _ = try await hold(try await fixture.claim()[0], turn(), fixture)
            #expect(try await fixture.queue.sweepAsLeader().pause == JobQueue.leadersSweep, "its turn is far")
            let soon = try await fixture.queue.now() + 200
            try await fixture.redis.send(["ZADD", .string(fixture.keys.held), "XX", .int(Int(soon)), .string(slow)])
            let pause = try await fixture.queue.sweepAsLeader().pause
            // On a slow machine the turn has come.
            let isReady = try await fixture.places("s") == ["ready"]
            #expect(isReady || pause <= .milliseconds(200) && pause >= .milliseconds(20))
        }
    }

    @Test func jobsOfHigherPriorityHaveTheFirstTurns() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(job("a"))
            try await fixture.admit()
            _ = try await hold(try await fixture.claim()[0], turn(), fixture)
            try await fixture.push(job("bulk", priority: .bulk), job("high", priority: .high), job("normal"))
            try await fixture.admitAll(3)
            #expect(try await fixture.held().map { JobKey($0.id).id } == ["high", "a", "normal", "bulk"])
        }
    }

    /// Fault: while jobs of a higher priority came faster than the host took them, those of a lower one never ran.
    @Test func prioritiesShareTheTurnsOfAHost() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(job("first"))
            try await fixture.admit()
            _ = try await hold(try await fixture.claim()[0], turn(), fixture)
            for priority in Job.Priority.allCases {
                for index in 0..<40 { try await fixture.push(job("\(priority)\(index)", priority: priority)) }
            }
            try await fixture.admitAll(120)
            var counts: [String: Int] = [:]
            for _ in 0..<42 {
                try await reachTurn(fixture)
                for job in try await fixture.claim() {
                    counts[job.id == "first" ? "normal" : job.id.filter(\.isLetter), default: 0] += 1
                    #expect(try await fixture.finish(job) == .ok)
                }
            }
            #expect(counts == ["high": 32, "normal": 8, "bulk": 2])
            while try await !fixture.held().isEmpty {
                try await reachTurn(fixture)
                try await fixture.queue.sweep(leads: true)
                // Without a worker, a sweep makes only a few of them ready.
                for job in try await fixture.claim(100) { #expect(try await fixture.finish(job) == .ok) }
            }
            try await reachTurn(fixture)
            try await fixture.queue.sweep(leads: true)
            #expect(try await fixture.count("EXISTS", fixture.keys.pace) == 0, "nor are credits left")
        }
    }

    @Test func theJobsOfAHostThatWasGivenUpBecomeReadyBehindAllOthers() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await holdJobs(300, fixture)
            try await fixture.queue.giveUp(slow)
            try await fixture.push(job("f", on: "fast.example"))
            try await fixture.admit()
            for _ in 0..<2 {
                try await reachTurn(fixture)
                try await fixture.queue.sweep(leads: true)
            }
            // Fault: all became ready at once, filled the window, and no other job was admitted until they had failed.
            #expect(try await fixture.count("LLEN", fixture.keys.ready(.normal)) == 2)
            let first = try await fixture.claim(1)
            #expect(first.map(\.id) == ["f"])
            _ = try await fixture.finish(first[0])
            var number = 0
            for _ in 0..<300 where number < 300 {
                try await reachTurn(fixture)
                let jobs = try await fixture.claim(64)
                #expect(jobs.count <= 32, "half of the free places")
                for job in jobs { #expect(try await fixture.finish(job, .failed) == .ok) }
                number += jobs.count
            }
            #expect(number == 300)
            #expect(try await fixture.held().isEmpty)
            #expect(try await fixture.count("EXISTS", fixture.keys.pace) == 0)
            #expect(try await fixture.count("PTTL", fixture.keys.givenUp) > 0, "the notes are forgotten")
        }
    }

    @Test func theJobsOfAHostThatWasGivenUpFailBesideABacklogToo() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await holdJobs(20, fixture)
            for index in 0..<200 { try await fixture.push(job("f\(index)", on: "fast.example")) }
            try await fixture.admitAll(200)
            try await fixture.queue.giveUp(slow)
            try await fixture.queue.sweep(leads: true)
            #expect(try await fixture.held().count == 19, "one has a place at the end of the list")
            var ids: [String] = []
            for _ in 0..<220 where ids.count < 220 {
                try await reachTurn(fixture)
                let jobs = try await fixture.claim(2)
                ids += jobs.map(\.id)
                for job in jobs { _ = try await fixture.finish(job, .failed) }
            }
            #expect(ids.count == 220)
            #expect(ids.prefix(200).allSatisfy { $0.hasPrefix("f") }, "the backlog has not waited")
        }
    }

    /// Fault: packs of a dead host filled all places of a fleet for a second or two, and other batches waited.
    @Test func packsOfAHostThatWasGivenUpLeaveMostPlacesToOthers() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(job("s"))
            for number in 0..<6 {
                let sources = (0..<10).map {
                    Pack.Source(id: "p\(number).\($0)", source: "https://slow.example/\(number)/\($0).jpg")
                }
                try await fixture.push(Pack(sharing: Job(id: "p\(number)", source: ""), sources: sources).json())
            }
            try await fixture.admitAll(7)
            _ = try await hold(try await fixture.claim()[0], turn(), fixture)
            #expect(try await fixture.claim(16).isEmpty)
            try await fixture.queue.giveUp(slow)
            try await reachTurn(fixture)
            let running = try await fixture.claim(16)
            #expect(Set(running.map(\.id)) == ["s", "p0"], "half of 16 places are full with eleven sources")
            let single = try #require(running.first { $0.id == "s" })
            #expect(try await fixture.finish(single, .failed) == .ok)
            for _ in 0..<3 {
                try await reachTurn(fixture)
                #expect(try await fixture.claim(16).isEmpty, "no other pack, while this one runs")
            }
            let pack = try #require(running.first { $0.id == "p0" })
            #expect(try await fixture.finish(pack, .failed) == .ok)
            try await reachTurn(fixture)
            #expect(try await fixture.claim(16).map(\.id) == ["p1"])
        }
    }

    /// Fault: a sweep counted each worker as one place, and came before all claims: an idle worker of 64 places ended
    /// 50 such jobs in a second.
    @Test func anIdleWorkerEndsTheJobsOfAHostThatWasGivenUpManyAtATime() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await holdJobs(200, fixture)
            let now = RedisArgument.int(Int(try await fixture.queue.now()))
            try await fixture.redis.send(["ZADD", .string(fixture.keys.workers), now, "w1"])
            try await fixture.redis.send(["HSET", .string(fixture.keys.workerInfo), "w1", #"{"concurrency":64}"#])
            try await fixture.queue.giveUp(slow)
            try await fixture.queue.sweep(leads: true)
            #expect(try await fixture.count("LLEN", fixture.keys.ready(.normal)) == 32, "half of the free places")
            // A damaged note costs the limit, and not the queue.
            for damaged in ["[[1]]", "[null]", "nonsense"] {
                try await fixture.redis.send(["SET", .string(fixture.keys.givenUp), .string(damaged)])
                try await reachTurn(fixture)
                try await fixture.queue.sweep(leads: true)
            }
            #expect(try await fixture.count("LLEN", fixture.keys.ready(.normal)) == 128)
        }
    }

    /// Fault: of workers with long leases, which renew them rarely, most counted as dead.
    @Test func aSweepCountsThePlacesOfWorkersWithLongLeases() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await holdJobs(20, fixture)
            let now = Int(try await fixture.queue.now())
            for (index, age) in [0, 20_000, 39_000].enumerated() {
                let (name, info) = (RedisArgument.string("w\(index)"), #"{"concurrency":8,"lease":120,"renewal":40}"#)
                try await fixture.redis.send(["ZADD", .string(fixture.keys.workers), .int(now - age), name])
                try await fixture.redis.send(["HSET", .string(fixture.keys.workerInfo), name, .string(info)])
            }
            try await fixture.queue.giveUp(slow)
            try await fixture.queue.sweep(leads: true)
            #expect(try await fixture.count("LLEN", fixture.keys.ready(.normal)) == 12, "half of 24 free places")
        }
    }

    /// Fault: the jobs of a dead host, which end one after the other, took all processors, and a batch beside them took
    /// 1.3 times its time.
    @Test func theJobsOfAHostThatWasGivenUpHaveAPaceWhileOtherJobsRun() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(job("f", on: "fast.example"))
            try await fixture.admit()
            let other = try await fixture.claim()[0]
            try await holdJobs(200, fixture)
            try await fixture.queue.giveUp(slow)
            // The note begins with the time of the next job.
            func claim(inMilliseconds wait: Int) async throws -> [ActiveJob] {
                let next = try await fixture.queue.now() + wait
                try await fixture.redis.send(["SET", .string(fixture.keys.givenUp), .string("[\(next)]")])
                try await reachTurn(fixture)
                return try await fixture.claim(64)
            }
            for wait in [60_000, 10_000] { #expect(try await claim(inMilliseconds: wait).isEmpty, "not yet") }
            for wait in [-200, -60_000] {
                let jobs = try await claim(inMilliseconds: wait)
                #expect(jobs.count == 12, "a tenth of a second of 64 places, each of which ends two in a second")
                try await reachTurn(fixture)
                for job in jobs { #expect(try await fixture.finish(job, .failed) == .ok) }
            }
            let note = try await fixture.redis.send(["GET", .string(fixture.keys.givenUp)]).string ?? ""
            let next = try #require(Int(note.dropFirst().prefix { $0.isNumber }), "\(note)")
            #expect(abs(next - (try await fixture.queue.now())) < 60_000)
            #expect(try await fixture.finish(other, .done) == .ok)
            #expect(try await claim(inMilliseconds: 60_000).count == 32, "half of the places, as no other job runs")
        }
    }

    /// Fault: with each small host that was given up, the limit began anew.
    @Test func hostsThatWereGivenUpShareTheirPlaces() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for number in 0..<8 {
                let host = "slow\(number).example"
                try await fixture.push(job("s\(number)", on: host))
                try await fixture.admitAll(1)
                let held = try await fixture.claim()[0]
                let turn = HostTurn(host: "\(host):443", wait: 60, interval: 0.1)
                #expect(try await hold(held, turn, fixture) == .ok)
            }
            var claimed = 0
            for number in 0..<8 {
                try await fixture.queue.giveUp("slow\(number).example:443")
                claimed += try await fixture.claim(8).count
            }
            #expect(claimed == 4, "half of eight places")
        }
    }

    @Test func heldJobsOfACancelledBatchEnd() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.submit([job("s"), job("t")], to: "b")
            try await fixture.admitAll(2)
            let (first, second) = (try await fixture.claim()[0], try await fixture.claim()[0])
            _ = try await hold(first, turn(), fixture)
            try await fixture.queue.cancel(batch: "b")
            #expect(try await fixture.places("s") == ["ready"])
            #expect(try await hold(second, turn(), fixture) == .ok)
            #expect(try await fixture.places("t") == ["ready"], "it does not wait for its host")
            // Fault: the second job counted too.
            #expect(try await fixture.redis.send(["HGET", .string(fixture.keys.stat), "held"]).int == 1)
            let claimed = try await fixture.claim(10)
            #expect(claimed.count == 2 && claimed.allSatisfy(\.isCancelled))
        }
    }

    /// Fault: a batch counted no held jobs as soon as a thousand jobs of another one waited for a host that came before
    /// its own in the alphabet.
    @Test func theHeldJobsOfABatchAreCountedByTheTurnsOfTheirHosts() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(job("s"))
            try await fixture.admit()
            _ = try await hold(try await fixture.claim()[0], turn(), fixture)
            let others = (0..<5000).flatMap { index -> [RedisArgument] in
                ["0", .string("a.example\0" + "2b" + String(repeating: "0", count: 18) + "\0other/\(index)")]
            }
            try await fixture.redis.send(RedisCommand(["ZADD", .string(fixture.keys.holding)] + others))
            let later = try await fixture.queue.now() + 120_000
            try await fixture.redis.send(["ZADD", .string(fixture.keys.held), .int(later), "a.example"])
            #expect(try await fixture.queue.delayed(of: "b").count == 1)
            #expect(try await fixture.queue.delayed(of: "other").count == 100, "those that were looked at")
            // Fault: the ids of the jobs of all batches were sent for each batch that was cancelled.
            let before = try await fixture.scriptCalls()
            try await fixture.queue.cancel(batch: "b")
            #expect(try await fixture.places("s") == ["ready"])
            // Each of both scripts is unknown to Redis at first.
            #expect(
                try await fixture.scriptCalls() - before <= 4,
                "`cancelBatch`, and one call for the page with its job"
            )
        }
    }

    /// Fault: at 131,072 delayed jobs nothing was admitted any more.
    @Test func heldJobsDoNotFillTheWindow() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(job("s"))
            try await fixture.admit()
            _ = try await hold(try await fixture.claim()[0], turn(), fixture)
            for index in 0..<200 { try await fixture.push(job("s\(index)")) }
            try await fixture.push(job("f", on: "fast.example"))
            for _ in 0..<20 { try await fixture.admit(window: 64) }
            #expect(try await fixture.held().count == 201)
            #expect(try await fixture.claim(10).map(\.id) == ["f"])
        }
    }

    /// Fault: the leader took a round that left intakes alone for one without jobs, and waited for a push.
    @Test func aBatchWithManyHeldJobsWaitsAndAnotherDoesNot() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(job("s"))
            try await fixture.admit()
            _ = try await hold(try await fixture.claim()[0], turn(), fixture)
            try await fixture.submit((0..<100).map { job("s\($0)") }, to: "b")
            var intake = fixture.intake
            intake.waitingLimits.jobs = 10
            var (window, staged) = (AdmissionWindow(limit: 20), StagedJobs())
            var round = Intake.Round.empty
            for _ in 0..<50 where round != .full {
                round = try await intake.admit(epoch: fixture.epoch, window: &window, staged: &staged, chunk: 10)
            }
            #expect(round == .full)
            let held = try await fixture.held().count
            #expect(held >= 20 && held < 60, "the others stay in their intake")
            try await fixture.submit([QueueFixture.job("f", batch: "fast")], to: "fast")
            for _ in 0..<2 {
                _ = try await intake.admit(epoch: fixture.epoch, window: &window, staged: &staged, chunk: 10)
            }
            #expect(try await fixture.claim(10).map(\.id) == ["f"])
        }
    }

    @Test func anAuditFindsHeldJobsInOrder() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for id in ["s", "t"] { try await fixture.push(job(id)) }
            try await fixture.admitAll(2)
            _ = try await hold(try await fixture.claim()[0], turn(), fixture)
            #expect(try await fixture.claim(10).isEmpty)
            let audit = QueueAudit(queue: fixture.queue)
            #expect(try await audit.run().faults.isEmpty)
            // By hand: a held job that is also ready.
            try await fixture.redis.send(["RPUSH", .string(fixture.keys.ready(.normal)), "b/s"])
            let report = try await audit.run(repair: true)
            #expect(Array(report.faults.keys) == [QueueAudit.Kind.twoStates])
            #expect(try await fixture.places("s") == ["held"])
        }
    }

    @Test func prioritiesShareByWeight() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for priority in Job.Priority.allCases {
                for index in 0..<40 {
                    try await fixture.push(job("\(priority)\(index)", on: "fast.example", priority: priority))
                }
            }
            try await fixture.admitAll(120)
            var counts: [String: Int] = [:]
            for _ in 0..<7 {
                for job in try await fixture.claim(3) { counts[job.id.filter(\.isLetter), default: 0] += 1 }
            }
            #expect(counts == ["high": 16, "normal": 4, "bulk": 1])
        }
    }
}
