import Foundation
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster
@testable import MegatonCore

/// Packs in the queue, on a real Redis.
@Suite(.timeLimit(.minutes(2))) struct PackQueueTests {
    private let host = "a.example:80"

    private func pack(_ id: String, _ count: Int, batch: String? = "b") -> Pack {
        Pack(
            sharing: Job(id: id, source: "", batch: batch),
            sources: (1...count).map { .init(id: "\(id).\($0)", source: "http://a.example/\($0)") }
        )
    }

    /// Submits a pack to the batch `b`, whose ids are unique, and claims it.
    private func claimed(_ count: Int, _ fixture: QueueFixture) async throws -> (active: ActiveJob, pack: Pack) {
        let pack = pack("p", count)
        let submitted = try await fixture.queue.push(
            [PushedJob(json: pack.json(), sources: count)],
            to: "b",
            first: 0,
            isLast: true,
            policy: BatchPolicy(keepsLedger: true),
            idsAreUnique: true,
            submitter: "me"
        )
        #expect(submitted == count)
        try await fixture.admit()
        return (try #require(try await fixture.claim().first), pack)
    }

    private func end(_ source: Pack.Source, _ status: JobOutcome.Status = .done) -> PackSettlement.End {
        let dead = status == .failed ? DeadLetter.Content(code: "x", message: "why", job: "{}") : nil
        return .init(id: source.id, outcome: JobOutcome(id: source.id, source: "s", status: status), dead: dead)
    }

    private func settle(
        _ settlement: PackSettlement,
        of active: ActiveJob,
        known: Int,
        _ fixture: QueueFixture,
        worker: String = "w1"
    ) async throws -> SettleResult {
        try await fixture.queue.settle(settlement, of: active, known: known, worker: worker)
    }

    private func packed(_ fixture: QueueFixture) async throws -> Int {
        try await fixture.redis.send(["HGET", .string(fixture.keys.stat), "packed"]).int ?? 0
    }

    /// Fault: each repetition of a call that failed subtracted the sources of its packs again.
    @Test func aCallThatFailsCountsNoSources() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (active, _) = try await claimed(4, fixture)
            try await fixture.push(QueueFixture.job("1"))
            try await fixture.admit()
            let job = try #require(try await fixture.claim().first)
            try await fixture.redis.send(["SET", .string(fixture.keys.dead), "damaged"])
            let ends = [(active, JobOutcome.Status.cancelled), (job, .failed)].map { job, status in
                let dead = DeadLetter.Content(code: "x", message: "why", job: "{}")
                let outcome = JobOutcome(id: job.id, source: "s", status: status)
                return JobCompletion(job: job, outcome: outcome, dead: status == .failed ? dead : nil)
            }
            for _ in 0..<2 {
                await #expect(throws: RedisError.self) { try await fixture.queue.settle(ends, worker: "w1") }
                #expect(try await packed(fixture) == 3)
            }
            try await fixture.redis.send(["DEL", .string(fixture.keys.dead)])
            #expect(try await fixture.queue.settle(ends, worker: "w1") == [.ok, .ok])
            #expect(try await packed(fixture) == 0)
        }
    }

    /// A damaged list of crashes ends the call after the pack has ended: nothing would count its sources later.
    @Test func aPackThatHasEndedCountsNoSources() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (active, _) = try await claimed(4, fixture)
            try await fixture.redis.send(["SET", .string(fixture.keys.crashes), "damaged"])
            let end = JobCompletion(job: active, outcome: JobOutcome(id: "p", source: "s", status: .done))
            await #expect(throws: RedisError.self) { try await fixture.queue.settle([end], worker: "w1") }
            #expect(try await fixture.queue.settle([end], worker: "w1") == [.alreadySettled])
            #expect(try await packed(fixture) == 0)
        }
    }

    @Test func aPackIsOneJobAndCountsAsItsSources() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (active, pack) = try await claimed(4, fixture)
            #expect(active.packSize == 4 && active.key.text == "b/p")
            #expect(try Pack(json: active.json).sources == pack.sources)
            var batch = try await fixture.batch("b")
            #expect(batch["total"] == 4 && batch["own"] == 4 && batch["submitted"] == 4)
            #expect(try await packed(fixture) == 3)
            let all = PackSettlement(
                ends: [end(pack.sources[0]), end(pack.sources[1], .failed)] + pack.sources[2...].map { end($0) },
                counters: ["renders": 4]
            )
            #expect(try await settle(all, of: active, known: 4, fixture) == .ok)
            #expect(try await settle(all, of: active, known: 4, fixture) == .alreadySettled)
            batch = try await fixture.batch("b")
            #expect(batch["done"] == 3 && batch["failed"] == 1 && batch["renders"] == 4 && batch.isFinished)
            #expect(try await fixture.places("p.2") == ["dead"])
            #expect(try await fixture.results(of: "b", kept: 0).count == 4)
            #expect(try await packed(fixture) == 0)
            #expect(try await fixture.queue.alive() == 0)
        }
    }

    @Test func aRepeatedPartialSettlementCountsOnce() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (active, pack) = try await claimed(4, fixture)
            let part = PackSettlement(
                ends: [end(pack.sources[0])],
                splits: [.init(job: pack.job(pack.sources[1]), free: 0, start: .after(.seconds(60)))],
                rest: .keep(pack.with(Array(pack.sources[2...])))
            )
            for _ in 0..<2 { #expect(try await settle(part, of: active, known: 4, fixture) == .ok) }
            let batch = try await fixture.batch("b")
            #expect(batch["done"] == 1 && batch["total"] == 4 && !batch.isFinished)
            #expect(try await fixture.places("p") == ["lease"])
            #expect(try await fixture.places("p.2") == ["delay"])
            #expect(try await packed(fixture) == 1)
            // A worker that knows less than Redis changes nothing.
            let late = PackSettlement(ends: pack.sources.map { end($0) })
            #expect(try await settle(late, of: active, known: 4, fixture) == .alreadySettled)
            #expect(try await settle(late, of: active, known: 2, fixture, worker: "w2") == .fenced)
            try await fixture.redis.send(["ZREM", .string(fixture.keys.lease), "b/p"])
            #expect(try await settle(late, of: active, known: 2, fixture) == .leaseExpired)
            #expect(try await fixture.batch("b")["done"] == 1)
        }
    }

    @Test func aSourceThatIsSplitOffIsAJobWithTheAttemptOfItsPack() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (active, pack) = try await claimed(2, fixture)
            let split = PackSettlement(
                ends: [end(pack.sources[0])],
                splits: [.init(job: pack.job(pack.sources[1]), free: 0)]
            )
            #expect(try await settle(split, of: active, known: 2, fixture) == .ok)
            let single = try #require(try await fixture.claim().first)
            #expect(single.id == "p.2" && single.packSize == 0 && single.attempt == 2 && single.counted == 2)
            #expect(try await fixture.finish(single) == .ok)
            #expect(try await fixture.batch("b").isFinished)
        }
    }

    @Test func theRestIsReleasedOrHeldAsASmallerPack() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (active, pack) = try await claimed(4, fixture)
            let release = PackSettlement(
                ends: [end(pack.sources[0])],
                rest: .ready(pack.with(Array(pack.sources[1...])))
            )
            #expect(try await settle(release, of: active, known: 4, fixture) == .ok)
            #expect(try await settle(release, of: active, known: 4, fixture) == .fenced)
            let second = try #require(try await fixture.claim().first)
            #expect(second.packSize == 3 && second.attempt == 2 && second.counted == 1)
            let rest = try Pack(json: second.json)
            #expect(rest.sources == Array(pack.sources[1...]), "its sources keep their ids")
            let turn = HostTurn(host: host, wait: 60, interval: 0.1)
            let hold = PackSettlement(
                ends: [end(rest.sources[0])],
                rest: .hold(rest.with(Array(rest.sources[1...])), turn)
            )
            #expect(try await settle(hold, of: second, known: 3, fixture) == .ok)
            #expect(try await fixture.places("p") == ["held"])
            #expect(try await fixture.claim().isEmpty)
            try await fixture.redis.send(["ZADD", .string(fixture.keys.held), "1", .string(host)])
            let third = try #require(try await fixture.claim().first)
            #expect(third.packSize == 2 && third.counted == 1)
        }
    }

    @Test func aPackThatYieldsGoesBehindTheOthers() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (active, pack) = try await claimed(3, fixture)
            try await fixture.push(QueueFixture.job("single"))
            try await fixture.admit()
            let yield = PackSettlement(
                ends: [end(pack.sources[0])],
                rest: .yield(pack.with(Array(pack.sources[1...])))
            )
            #expect(try await fixture.queue.waitingJobs(beside: .normal) == .equal)
            #expect(try await settle(yield, of: active, known: 3, fixture) == .ok)
            #expect(try await fixture.claim().map(\.id) == ["single"])
            let rest = try #require(try await fixture.claim().first)
            #expect(rest.packSize == 2 && rest.counted == 1)
            #expect(try await fixture.queue.waitingJobs(beside: .normal) == JobQueue.WaitingJobs.none)
        }
    }

    /// One dead host must not stop the others.
    @Test func packsThatWaitForTheirHostAreNoPartOfTheWindow() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (active, pack) = try await claimed(100, fixture)
            let hold = PackSettlement(rest: .hold(pack, HostTurn(host: host, wait: 60, interval: 1)))
            #expect(try await settle(hold, of: active, known: 100, fixture) == .ok)
            try await fixture.push(QueueFixture.job("single"))
            #expect(try await fixture.admit(window: 64) == .admitted(.init(admitted: 1)))
            func waiting() async throws -> [String?] {
                let key = RedisArgument.string(fixture.keys.heldBytes)
                return (try await fixture.redis.send(["HMGET", key, "bytes", "packed"]).array ?? []).map(\.string)
            }
            #expect(try await waiting() == ["\(pack.json().count)", "99"])
            // Another one of the host waits at once.
            try await fixture.push(self.pack("q", 3, batch: nil).json())
            #expect(try await fixture.admit(window: 64) == .admitted(.init(admitted: 3)))
            #expect(try await waiting()[1] == "101")
            try await fixture.redis.send(["ZADD", .string(fixture.keys.held), "1", .string(host)])
            #expect(try await fixture.claim(10).count + (try await fixture.claim(10).count) == 3)
            #expect(try await waiting() == [nil, nil])
        }
    }

    @Test func batchesShareBySourcesAndNotByPacks() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let packs = (0..<20).map { PushedJob(json: pack("p\($0)", 20, batch: nil).json(), sources: 20) }
            let singles = (0..<200).map { PushedJob(json: QueueFixture.job("s\($0)")) }
            for (name, jobs) in [("packs", packs), ("singles", singles)] { try await fixture.push(jobs, to: name) }
            var (window, staged) = (AdmissionWindow(limit: 200), StagedJobs())
            window.observe(.places(100))
            for _ in 0..<20 where try await fixture.count("HLEN", fixture.keys.body) < 90 {
                _ = try await fixture.intake.admit(epoch: fixture.epoch, window: &window, staged: &staged, chunk: 200)
            }
            let (first, second) = (try await fixture.batch("packs"), try await fixture.batch("singles"))
            #expect((80...120).contains(first["total"]) && (80...120).contains(second["total"]), "\(first) \(second)")
        }
    }

    /// Fault: a small batch waited in its intake until whole packs had ended.
    @Test func packsThatFillTheWindowDoNotKeepOtherJobsOut() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let packs = (0..<8).map { number in
                let sources = (0..<64).map { "\"http://a.example/\(number).\($0)\"" }.joined(separator: ",")
                return PushedJob(json: Data(#"{"id":"p\#(number)","sources":[\#(sources)]}"#.utf8), sources: 64)
            }
            try await fixture.push(packs, to: "packs")
            var (window, staged) = (AdmissionWindow(limit: 1000), StagedJobs())
            window.observe(.places(50))
            func rounds() async throws -> [Intake.Round] {
                var rounds: [Intake.Round] = []
                for _ in 0..<4 {
                    let round = try await fixture.intake.admit(
                        epoch: fixture.epoch,
                        window: &window,
                        staged: &staged,
                        chunk: 200
                    )
                    rounds.append(round)
                }
                return rounds
            }
            #expect(try await rounds().last == .full, "it is not over, although no job was taken")
            #expect(try await fixture.batch("packs")["total"] == 128)
            try await fixture.push((0..<10).map { PushedJob(json: QueueFixture.job("s\($0)")) }, to: "small")
            try await fixture.push(QueueFixture.job("public"))
            _ = try await rounds()
            #expect(try await fixture.batch("small")["total"] == 10)
            #expect(try await fixture.batch("packs")["total"] == 128)
            #expect(try await fixture.count("HLEN", fixture.keys.body) == 2 + 10 + 1)
            #expect(try await fixture.count("LLEN", fixture.keys.jobs(batch: "packs")) == 6, "none was lost")
        }
    }

    @Test func aBatchWhosePacksAreRefusedEnds() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let json = Data(#"{"id":"p","preset":"none","sources":["http://a.example/1","http://a.example/2"]}"#.utf8)
            try await fixture.push(
                [PushedJob(json: json, sources: 2)],
                to: "b",
                policy: BatchPolicy(keepsLedger: true)
            )
            #expect(try await fixture.admit() == .admitted(.init(invalid: 2)))
            let batch = try await fixture.batch("b")
            #expect(batch["failed"] == 2 && batch["own"] == 2 && batch.isFinished)
            #expect(try await fixture.results(of: "b", kept: 0).count == 2)
            #expect(try await fixture.places("p.2") == ["dead"])
        }
    }

    /// A client that got no reply pushes its pack again.
    @Test func aPackThatIsPushedAgainIsADuplicateAlthoughSomeOfItsSourcesHaveEnded() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let pushed = pack("p", 4, batch: nil)
            try await fixture.push(pushed.json())
            try await fixture.admit()
            let active = try #require(try await fixture.claim().first)
            let stored = try Pack(json: active.json)
            let part = PackSettlement(
                ends: [end(stored.sources[0])],
                rest: .keep(stored.with(Array(stored.sources[1...])))
            )
            #expect(try await settle(part, of: active, known: 4, fixture) == .ok)
            try await fixture.push(pushed.json())
            let repeated = try await fixture.admit()
            #expect(repeated == .admitted(.init(duplicates: 4)))
            var other = pushed
            other.sources[3].source = "http://a.example/other"
            try await fixture.push(other.json())
            #expect(try await fixture.admit() == .admitted(.init(invalid: 4)))
            #expect(try await fixture.queue.alive() == 1)
        }
    }

    @Test func anIDThatIsTakenFailsWhenItIsSplitOff() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (active, pack) = try await claimed(2, fixture)
            try await fixture.push(QueueFixture.job("p.2", batch: "b"))
            try await fixture.admit()
            let split = PackSettlement(splits: pack.sources.map { .init(job: pack.job($0), free: 1) })
            #expect(try await settle(split, of: active, known: 2, fixture) == .ok)
            let batch = try await fixture.batch("b")
            #expect(batch["failed"] == 1 && batch["total"] == 3)
            #expect(try await fixture.claim(5).map(\.id).sorted() == ["p.1", "p.2"])
        }
    }

    @Test func aCancelledBatchEndsTheSourcesOfItsPacks() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let packs = (0..<30).map { PushedJob(json: pack("p\($0)", 200).json(), sources: 200) }
            _ = try await fixture.queue.push(
                packs,
                to: "b",
                first: 0,
                isLast: true,
                policy: BatchPolicy(keepsLedger: true),
                idsAreUnique: true,
                submitter: "me"
            )
            // One is ready, the others are still in the intake: more than one call drops.
            var (window, staged) = (AdmissionWindow(limit: 1), StagedJobs())
            _ = try await fixture.intake.admit(epoch: fixture.epoch, window: &window, staged: &staged, chunk: 1)
            try await fixture.queue.cancel(batch: "b")
            let active = try #require(try await fixture.claim().first)
            #expect(active.isCancelled && active.packSize == 200)
            let ends = try Pack(json: active.json).sources.map { end($0, .cancelled) }
            #expect(try await settle(PackSettlement(ends: ends), of: active, known: 200, fixture) == .ok)
            let batch = try await fixture.batch("b")
            #expect(batch["cancelled"] == 6000 && batch["total"] == 6000 && batch.isFinished)
        }
    }

    @Test func aStagedPackOfACancelledBatchHasAnOutcomeForEachSource() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.redis.send(["HSET", .string(fixture.keys.batch("b")), "ledger", "1"])
            try await fixture.redis.send(["SADD", .string(fixture.keys.cancelled), "b"])
            let json = #"{"batch":"b","sources":["http://a.example/1","http://a.example/2"]}"#
            try await fixture.push(Data(json.utf8))
            #expect(try await fixture.admit() == .admitted(.init(cancelled: 2)))
            #expect(try await fixture.batch("b")["cancelled"] == 2)
            #expect(try await fixture.results(of: "b", kept: 0).count == 2)
        }
    }

    @Test func aPushedPackIsAdmittedWithoutItsInvalidSources() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let json = #"{"id":"p","batch":"b","sources":["http://a.example/1","","http://b.example/2"]}"#
            try await fixture.push(Data(json.utf8))
            #expect(try await fixture.admit() == .admitted(.init(admitted: 2, invalid: 1)))
            #expect(try await fixture.count("LLEN", fixture.keys.stage(epoch: fixture.epoch)) == 0)
            let batch = try await fixture.batch("b")
            #expect(batch["total"] == 3 && batch["failed"] == 1)
            #expect(try await fixture.claim(5).map(\.id).sorted() == ["p.1", "p.3"])
            // The same pack again: each source is a duplicate.
            try await fixture.push(Data(json.utf8))
            #expect(try await fixture.admit() == .admitted(.init(invalid: 1, duplicates: 2)))
        }
    }

    /// One entry of the stage may become many jobs, so that one call admits only some of the entries.
    @Test func splitPacksAreAdmittedInSeveralRounds() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for number in 0..<8 { try await fixture.push(pack("p\(number)", 256).json()) }
            var (window, staged) = (AdmissionWindow(limit: 10_000), StagedJobs())
            window.observe(.places(5000))
            var rounds = 0
            while rounds < 20, try await fixture.count("HLEN", fixture.keys.body) < 8 * 256 {
                _ = try await fixture.intake.admit(epoch: fixture.epoch, window: &window, staged: &staged, chunk: 100)
                rounds += 1
            }
            #expect((4...8).contains(rounds), "\(rounds)")
            #expect(try await fixture.batch("b")["total"] == 8 * 256)
            #expect(try await fixture.count("LLEN", fixture.keys.stage(epoch: fixture.epoch)) == 0)
        }
    }

    @Test func aPackWhoseWorkerDiedSuspectsNoSourceAlone() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (active, _) = try await claimed(3, fixture)
            try await fixture.push(QueueFixture.job("single"))
            try await fixture.admit()
            _ = try await fixture.claim()
            try await fixture.queue.sweep(dead: ["w1"])
            let again = try await fixture.claim(5, worker: "w2")
            #expect(again.map(\.id).sorted() == ["p", "single"])
            let swept = try #require(again.first { $0.id == "p" })
            #expect(swept.stalls == 1 && swept.deaths == 0 && swept.attempt == active.attempt + 1)
            #expect(again.first { $0.id == "single" }?.deaths == 1)
        }
    }
}
