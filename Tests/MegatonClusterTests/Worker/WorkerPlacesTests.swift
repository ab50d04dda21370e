import Foundation
import MegatonRedis
import NIOCore
import Testing

@testable import MegatonCluster

@Suite(.timeLimit(.minutes(1))) struct WorkerPlacesTests {
    private func job(_ id: String) throws -> ActiveJob {
        let fields: [RedisValue] =
            [id, "1", "0", "{}", "", "0", "0", "0", "0", "0", "-1"].map { .bulk(ByteBuffer(string: $0)) }
        return try #require(ActiveJob(.array(fields), validUntil: .now + .seconds(60)))
    }

    @Test func aClaimHoldsItsPlacesUntilItEnds() throws {
        let places = WorkerPlaces(count: 4, waitsForSettlements: false)
        let (first, second) = (RunningJobs(), RunningJobs())
        let (a, b) = (places.add(first), places.add(second))
        #expect(places.isShared && places.reserve(for: a) == 4)
        #expect(places.free(for: a) == 4 && places.free(for: b) == 0, "its own claim does not count for a shard")
        #expect(places.reserve(for: b) == 0 && places.isWaiting(b))
        first.insert(try job("1"))
        places.end(for: a)
        #expect(places.reserve(for: b) == 3 && !places.isWaiting(b))
        places.end(for: b)
    }

    /// Fault: a shard that took a second for each reply held all places for each of its claims.
    @Test func theClaimsOfASlowShardHoldItsPartOfThePlaces() async throws {
        let places = WorkerPlaces(count: 8, waitsForSettlements: false)
        let (first, second) = (RunningJobs(), RunningJobs())
        let (a, b) = (places.add(first), places.add(second))
        let start = ContinuousClock.now
        #expect(places.reserve(for: a, at: start) == 8, "nothing is known of it")
        #expect(places.reserve(for: b, at: start) == 0)
        places.end(for: a, at: start + .seconds(1))
        #expect(places.reserve(for: b, at: start) == 8)
        #expect(places.reserve(for: a, at: start) == 0 && places.isWaiting(a))
        places.end(for: b, at: start + WorkerPlaces.shortClaim)
        // Its turn, for half of them: the others are free for the one that waits.
        #expect(places.reserve(for: b, at: start) == 0 && places.isWaiting(b))
        #expect(places.reserve(for: a, at: start) == 4)
        await second.changed.wait()
        #expect(places.reserve(for: b, at: start) == 4)
        places.end(for: b, at: start)
        // As soon as it answers in time, it may fill the worker again.
        places.end(for: a, at: start + WorkerPlaces.shortClaim)
        #expect(places.reserve(for: a, at: start) == 8)
        places.end(for: a, at: start)
    }

    /// Fault: a worker that had been full waited for its turn among the shards, and not for a token. It claimed no
    /// more.
    @Test func aShardThatGivesItsTurnUpHasAPlace() throws {
        let places = WorkerPlaces(count: 1, waitsForSettlements: false)
        let running = RunningJobs()
        let member = places.add(running)
        #expect(places.reserve(for: member) == 1)
        let job = try job("1")
        running.insert(job)
        places.end(for: member)
        #expect(places.reserve(for: member) == 0 && places.isWaiting(member))
        running.remove(job)
        #expect(!places.hasPlace(member))
        places.leave(member)
        #expect(places.hasPlace(member))
    }

    /// Fault: a pack that filled the worker gave its place up for ready jobs of its own shard alone.
    @Test func aPackLearnsOfReadyJobsInShardsThatWait() async throws {
        let places = WorkerPlaces(count: 1, waitsForSettlements: false)
        let (first, second) = (RunningJobs(), RunningJobs())
        let a = places.add(first) { _ in .higher }
        let b = places.add(second) { $0 == .high ? .lower : .equal }
        #expect(places.reserve(for: a) == 1)
        first.insert(try job("1"))
        places.end(for: a)
        #expect(await first.othersWaiting(beside: .normal) == .none, "the other shard has not asked for a place")
        #expect(places.reserve(for: b) == 0)
        #expect(await first.othersWaiting(beside: .normal) == .equal)
        #expect(await first.othersWaiting(beside: .high) == .lower)
        #expect(await second.othersWaiting(beside: .normal) == .none, "a shard does not ask for its own")
        places.leave(b)
        #expect(await first.othersWaiting(beside: .normal) == .none, "its Redis is away")
    }

    @Test func aWorkerWithOneShardReservesAllPlaces() {
        let places = WorkerPlaces(count: 8, waitsForSettlements: false)
        let member = places.add(RunningJobs())
        let start = ContinuousClock.now
        #expect(places.reserve(for: member, at: start) == 8)
        places.end(for: member, at: start + .seconds(1))
        #expect(places.reserve(for: member, at: start) == 8)
    }

    /// Fault: the first shard always got the place, as it was asked first.
    @Test func shardsTakeTurns() throws {
        let places = WorkerPlaces(count: 1, waitsForSettlements: false)
        let running = (0..<3).map { _ in RunningJobs() }
        let members = running.map { places.add($0) }
        var order: [Int] = []
        for member in members { _ = places.reserve(for: member) }  // Shard 0 has the place, the others wait.
        var owner = 0
        for round in 0..<9 {
            let job = try job("\(round)")
            running[owner].insert(job)
            places.end(for: members[owner])
            _ = places.reserve(for: members[owner])  // It wants the next one too.
            running[owner].remove(job)
            // All try; only the one that has waited longest gets it.
            let next = try #require(members.indices.first { places.reserve(for: members[$0]) == 1 })
            order.append(next)
            owner = next
        }
        #expect(order == [1, 2, 0, 1, 2, 0, 1, 2, 0])
    }

    @Test func theShardWhoseTurnItIsIsNotified() async throws {
        let places = WorkerPlaces(count: 1, waitsForSettlements: false)
        let (first, second) = (RunningJobs(), RunningJobs())
        let (a, b) = (places.add(first), places.add(second))
        #expect(places.reserve(for: a) == 1)
        let job = try job("1")
        first.insert(job)
        places.end(for: a)
        #expect(places.reserve(for: b) == 0)
        first.remove(job)
        await second.changed.wait()
        #expect(places.reserve(for: b) == 1)
        places.end(for: b)
    }

    /// Fault: a shard without work slept without a token, as another one was claiming for all places, and nothing woke
    /// it when that found no job either.
    @Test func aShardThatFindsNoPlaceWaitsForItsTurn() async {
        let places = WorkerPlaces(count: 2, waitsForSettlements: false)
        let (first, second) = (RunningJobs(), RunningJobs())
        let (a, b) = (places.add(first), places.add(second))
        #expect(places.hasPlace(a) && !places.isWaiting(a))
        #expect(places.reserve(for: b) == 2)
        #expect(!places.hasPlace(a) && places.isWaiting(a))
        places.end(for: b)
        await first.changed.wait()
        #expect(places.reserve(for: a) == 2)
    }

    /// Fault: an idle worker with N shards sent N times the commands of one.
    @Test func severalShardsAreAskedLessOften() {
        let places = WorkerPlaces(count: 1, waitsForSettlements: false)
        #expect(places.idleFactor == 1)
        for factor in [1, 2, 3, 4, 5, 5, 5] {
            _ = places.add(RunningJobs())
            #expect(places.idleFactor == factor)
        }
    }

    /// Packs of several shards use a free place once.
    @Test func packsBorrowPlacesOfAllShards() throws {
        let places = WorkerPlaces(count: 3, waitsForSettlements: false)
        let running = [RunningJobs(), RunningJobs()]
        for shard in running { _ = places.add(shard) }
        running[0].insert(try job("1"))
        running[1].insert(try job("2"))
        #expect(running[0].lend(of: 3))
        #expect(!running[0].lend(of: 3) && !running[1].lend(of: 3), "all three are in use")
        running[0].takeBack()
        #expect(running[1].lend(of: 3))
    }

    @Test func aShardThatLeavesBlocksNoOther() {
        let places = WorkerPlaces(count: 1, waitsForSettlements: false)
        let members = (0..<3).map { _ in places.add(RunningJobs()) }
        #expect(places.reserve(for: members[0]) == 1)
        #expect(places.reserve(for: members[1]) == 0 && places.reserve(for: members[2]) == 0)
        places.leave(members[1])
        places.end(for: members[0])
        #expect(places.reserve(for: members[2]) == 1)
    }

    /// Fault: a list with many slow hosts had all places of a worker, and its processors were idle.
    @Test func aJobWithALongFetchLeavesItsPlace() throws {
        let places = WorkerPlaces(count: 2, waitsForSettlements: false)
        let running = RunningJobs()
        let member = places.add(running)
        let now = ContinuousClock.now
        func start(_ id: String, after age: Duration?) throws -> ActiveJob {
            let job = try job(id)
            if let age { job.observeFetch(from: "\(id).example:443") { now - age } }
            running.insert(job)
            return job
        }
        let slow = try start("slow", after: .seconds(1))
        places.leaveLongFetches(at: now)
        #expect(places.free(for: member) == 1 && !slow.hasLeftPlace, "a place is free anyway")
        let quick = try start("quick", after: .milliseconds(900))
        places.leaveLongFetches(at: now)
        #expect(slow.hasLeftPlace && !quick.hasLeftPlace && places.free(for: member) == 1)
        let rendering = try start("rendering", after: nil)
        places.leaveLongFetches(at: now)
        #expect(places.free(for: member) == 0 && running.count == 3 && running.usedCount == 2)
        // Whether it is being settled first or not, it frees no second place.
        running.markSettling(slow)
        #expect(places.free(for: member) == 0 && running.placelessCount == 0)
        running.remove(slow)
        #expect(places.free(for: member) == 0)
        running.remove(rendering)
        #expect(places.free(for: member) == 1)
    }

    /// Fault: a hundred jobs of a slow host that were claimed at once had all places for a second.
    @Test func laterJobsOfTheHostLeaveTheirPlacesAtOnce() throws {
        let places = WorkerPlaces(count: 2, waitsForSettlements: false)
        let running = RunningJobs()
        let member = places.add(running)
        let now = ContinuousClock.now
        let jobs = try (0..<4).map { try job("\($0)") }
        let hosts = ["slow.example:443", "slow.example:443", "slow.example:443", "quick.example:443"]
        for (job, host) in zip(jobs, hosts) {
            job.observeFetch(from: host) { job === jobs[0] ? now - .seconds(2) : now }
            running.insert(job)
        }
        places.leaveLongFetches(at: now)
        #expect(jobs.map(\.hasLeftPlace) == [true, true, true, false] && places.free(for: member) == 1)
    }

    /// Fault: jobs of a slow host that were claimed at once had all places for a second, while quick ones waited.
    @Test func aFetchIsLongIfItTakesLongerThanUsual() throws {
        let places = WorkerPlaces(count: 3, waitsForSettlements: false)
        let running = RunningJobs()
        _ = places.add(running)
        let now = ContinuousClock.now
        let jobs = try ["slow", "later", "last"].map { try job($0) }
        for (job, age) in zip(jobs, [400, 240, 25]) {
            job.observeFetch(from: "one.example:443") { now - .milliseconds(age) }
            running.insert(job)
        }
        // Nothing is known, or it is as usual.
        places.leaveLongFetches(at: now)
        for _ in 0..<200 { running.noteFetch(.milliseconds(200)) }
        places.leaveLongFetches(at: now)
        #expect(jobs.map(\.hasLeftPlace) == [false, false, false])
        // A few slow ones do not change what is usual. If one of a host takes long, others are given an eighth of the
        // time.
        for number in 0..<200 { running.noteFetch(number.isMultiple(of: 3) ? .seconds(15) : .milliseconds(60)) }
        places.leaveLongFetches(at: now)
        #expect(jobs.map(\.hasLeftPlace) == [true, true, false])
    }

    /// Fault: usual fetches of a host that had one long fetch left their places, and those of others that took long did
    /// not.
    @Test func furtherFetchesLeaveRoomForLongOnes() throws {
        let places = WorkerPlaces(count: 1, waitsForSettlements: false)
        let running = RunningJobs()
        _ = places.add(running)
        let now = ContinuousClock.now
        func start(_ id: String, _ host: String, _ age: Duration) throws -> ActiveJob {
            let job = try job(id)
            job.observeFetch(from: host) { now - age }
            running.insert(job)
            return job
        }
        for _ in 0..<200 { running.noteFetch(.milliseconds(200)) }
        let long = try start("long", "one.example:443", .milliseconds(800))
        let further = try (0..<4).map { try start("\($0)", "one.example:443", .milliseconds(310 + $0)) }
        let usual = try start("usual", "one.example:443", .milliseconds(290))
        places.leaveLongFetches(at: now)
        #expect(long.hasLeftPlace && further.map(\.hasLeftPlace) == [false, false, false, true], "the oldest")
        let other = try start("other", "two.example:443", .milliseconds(800))
        places.leaveLongFetches(at: now)
        #expect(other.hasLeftPlace && further.filter(\.hasLeftPlace).count == 1 && !usual.hasLeftPlace)
    }

    /// A second is long even if most fetches take longer.
    @Test func aSecondIsLongHoweverLongIsUsual() throws {
        let places = WorkerPlaces(count: 1, waitsForSettlements: false)
        let running = RunningJobs()
        _ = places.add(running)
        let (now, job) = (ContinuousClock.now, try job("slow"))
        job.observeFetch(from: "one.example:443") { now - .seconds(1) }
        running.insert(job)
        for _ in 0..<200 { running.noteFetch(.seconds(10)) }
        places.leaveLongFetches(at: now - .milliseconds(1))
        #expect(!job.hasLeftPlace)
        places.leaveLongFetches(at: now)
        #expect(job.hasLeftPlace)
    }

    /// Those of an S3 bucket, for example.
    @Test func jobsWithoutAHostLeaveThemOneByOne() async throws {
        let places = WorkerPlaces(count: 2, waitsForSettlements: false)
        let running = RunningJobs()
        let member = places.add(running)
        let now = ContinuousClock.now
        let (slow, quick) = (try job("slow"), try job("quick"))
        slow.observeFetch(from: nil) { now - .seconds(1) }
        quick.observeFetch(from: nil) { now }
        for job in [slow, quick] { running.insert(job) }
        places.leaveLongFetches(at: now)
        #expect(slow.hasLeftPlace && !quick.hasLeftPlace && places.free(for: member) == 1)
        // The loop that waits for a place is awake.
        await running.changed.wait()
    }

    /// They write to the full disk, too.
    @Test func withAFullDiskJobsWithoutAPlaceCount() throws {
        let disk = DiskPause()
        let places = WorkerPlaces(count: 2, waitsForSettlements: false, disk: disk)
        let running = RunningJobs()
        let member = places.add(running)
        let now = ContinuousClock.now
        for number in 0..<2 {
            let job = try job("\(number)")
            job.observeFetch(from: "slow.example:443") { now - .seconds(2) }
            running.insert(job)
        }
        places.leaveLongFetches(at: now)
        #expect(places.free(for: member) == 2)
        _ = disk.noteFull("full")
        #expect(places.free(for: member) < 0)
    }

    /// Each of them has a connection and memory.
    @Test func longFetchesHaveALimit() throws {
        let places = WorkerPlaces(count: 2, waitsForSettlements: false)
        let running = RunningJobs()
        let member = places.add(running)
        let now = ContinuousClock.now
        var jobs: [ActiveJob] = []
        for number in 0..<8 {
            let job = try job("\(number)")
            job.observeFetch(from: "slow.example:443") { now - .seconds(2) }
            running.insert(job)
            jobs.append(job)
            places.leaveLongFetches(at: now)
        }
        #expect(running.placelessCount == 6 && places.free(for: member) == 0)
        let gone = try #require(jobs.filter(\.hasLeftPlace).first)
        running.remove(gone)
        places.leaveLongFetches(at: now)
        #expect(running.placelessCount == 6 && places.free(for: member) == 1)
    }
}
