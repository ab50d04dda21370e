import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// Bounds of one claim, and the tokens for jobs that it leaves, on a real Redis.
@Suite(.timeLimit(.minutes(2))) struct ClaimBoundTests {
    private func claim(_ limit: Int, _ fixture: QueueFixture) async throws -> JobQueue.Claim {
        try await fixture.queue.claim(
            limit,
            running: 0,
            places: limit,
            ignoresShare: true,
            suspects: .none,
            worker: "w1",
            lease: .seconds(60),
            validUntil: .now + .seconds(60)
        )
    }

    private func tokens(_ fixture: QueueFixture) async throws -> Int {
        try await fixture.count("LLEN", fixture.keys.wake)
    }

    private func removeTokens(_ fixture: QueueFixture) async throws {
        try await fixture.redis.send(["DEL", .string(fixture.keys.wake)])
    }

    /// Fault: a claim worked through a list of any length if it could hand out none of its jobs.
    @Test func aClaimPassesABoundedNumberOfJobs() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let ready = fixture.keys.ready(.normal)
            let unknown = (0..<3000).map { RedisArgument.string("unknown\($0)") }
            try await fixture.redis.send(RedisCommand(["LPUSH", .string(ready)] + unknown))
            let first = try await claim(10, fixture)
            #expect(first.jobs.isEmpty && first.left > 0, "the worker asks again soon")
            #expect(try await fixture.count("LLEN", ready) > 1900)
            for _ in 0..<2 { _ = try await claim(10, fixture) }
            #expect(try await fixture.count("LLEN", ready) == 0)
        }
    }

    /// If more jobs are ready than run, the next claim needs no token.
    @Test(arguments: [(2, true), (3, false)]) func fewReadyJobsAreAnnounced(count: Int, isAnnounced: Bool) async throws
    {
        try await QueueFixture.run { (fixture) async throws in
            for number in 0..<count { try await fixture.push(QueueFixture.job("j\(number)")) }
            try await fixture.admitAll(count)
            let claim = try await claim(1, fixture)
            #expect(claim.jobs.count == 1 && claim.isAnnounced == isAnnounced)
        }
    }

    /// Fault: only a claim that had filled its worker woke another one.
    @Test func aClaimThatFillsItsReplyWakesAnotherWorker() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let text = String(repeating: " ", count: 700_000)
            for id in ["a", "b", "c"] {
                try await fixture.push(QueueFixture.job(id))
                try await fixture.admitAll(1)
                let json = String(decoding: QueueFixture.job(id), as: UTF8.self)
                try await fixture.redis.send(["HSET", .string(fixture.keys.body), .string(id), .string(json + text)])
            }
            try await removeTokens(fixture)
            #expect(try await claim(3, fixture).jobs.map(\.id) == ["a"])
            #expect(try await tokens(fixture) == 1)
        }
    }

    /// Fault: a due job waited for the next sweep while another worker slept.
    @Test func aClaimThatLeavesDueJobsWakesAnotherWorker() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for id in ["a", "b"] { try await fixture.push(QueueFixture.job(id)) }
            try await fixture.admitAll(2)
            for job in try await fixture.claim(2) {
                let result = try await fixture.queue.retry(
                    job,
                    worker: "w1",
                    after: .seconds(60),
                    countsAttempt: true,
                    counters: [:]
                )
                #expect(result == .ok)
            }
            for id in ["a", "b"] {
                try await fixture.redis.send(["ZADD", .string(fixture.keys.delay), "1", .string(id)])
            }
            try await removeTokens(fixture)
            #expect(try await claim(1, fixture).jobs.count == 1)
            #expect(try await fixture.count("ZCARD", fixture.keys.delay) == 1)
            #expect(try await tokens(fixture) == 1)
        }
    }

    /// Fault: Redis gave the token of a draining worker to the connection that the worker had just closed.
    @Test func aDrainingWorkerWakesAnotherBehindItsOwnConnection() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let wake = RedisArgument.string(fixture.keys.wake)
            let (own, other) = (fixture.server.client(), fixture.server.client())
            defer {
                own.close()
                other.close()
            }
            func waits(_ count: Int) async throws {
                while let info = try await fixture.redis.send(["INFO", "clients"]).string,
                    !info.contains("blocked_clients:\(count)\r")
                {
                    await Task.yield()
                }
            }
            async let first = own.send(["BLPOP", wake, "30"], timeout: .seconds(60))
            try await waits(1)
            async let second = other.send(["BLPOP", wake, "30"], timeout: .seconds(60))
            try await waits(2)
            try await fixture.queue.passTokenOn(closing: true)
            #expect(try await second.array?.count == 2)
            #expect(try await first.array?.count == 2)
        }
    }

    @Test func aClaimThatLeavesNothingWakesNoWorker() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.admit()
            try await removeTokens(fixture)
            #expect(try await claim(1, fixture).jobs.count == 1)
            #expect(try await tokens(fixture) == 0)
        }
    }

    /// Fault: tokens of jobs that other claims had taken woke workers for nothing.
    @Test func aClaimOfTheLastJobDeletesTheTokens() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for id in ["a", "b"] { try await fixture.push(QueueFixture.job(id)) }
            try await fixture.admitAll(2)
            #expect(try await tokens(fixture) > 0)
            let first = try await claim(1, fixture)
            #expect(first.isAnnounced && !first.isQueueEmpty)
            #expect(try await tokens(fixture) > 0, "for the job that is left")
            let second = try await claim(1, fixture)
            #expect(!second.isAnnounced && second.isQueueEmpty)
            #expect(try await tokens(fixture) == 0)
        }
    }

    /// Fault: the jobs had their leases, and the worker got an error instead of them.
    @Test func aListOfTokensOfAnotherTypeIsReplaced() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for id in ["a", "b", "c"] { try await fixture.push(QueueFixture.job(id)) }
            try await fixture.admitAll(3)
            try await fixture.redis.send(["SET", .string(fixture.keys.wake), "damaged"])
            #expect(try await claim(2, fixture).jobs.count == 2)
            #expect(try await tokens(fixture) == 1)
        }
    }

    /// Fault: jobs that a process for suspects made ready waited until another worker looked by itself.
    @Test func aClaimForSuspectsLeavesNoReadyJobWithoutAToken() async throws {
        try await QueueFixture.run { (fixture) async throws in
            func claimSuspects() async throws -> JobQueue.Claim {
                try await fixture.queue.claim(
                    1,
                    running: 0,
                    places: 1,
                    ignoresShare: true,
                    suspects: .only,
                    worker: "w1",
                    lease: .seconds(60),
                    validUntil: .now + .seconds(60)
                )
            }
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.admitAll(1)
            try await fixture.redis.send([
                "RPOPLPUSH", .string(fixture.keys.ready(.normal)), .string(fixture.keys.suspects),
            ])
            try await removeTokens(fixture)
            #expect(try await claimSuspects().jobs.isEmpty)
            #expect(try await fixture.count("LLEN", fixture.keys.ready(.normal)) == 1, "it is not suspected any more")
            #expect(try await tokens(fixture) == 1)
            let job = try #require(try await fixture.claim(1).first)
            let queue = fixture.queue
            _ = try await queue.retry(job, worker: "w1", after: .seconds(60), countsAttempt: true, counters: [:])
            try await fixture.redis.send(["ZADD", .string(fixture.keys.delay), "1", "a"])
            try await removeTokens(fixture)
            _ = try await claimSuspects()
            #expect(try await fixture.count("ZCARD", fixture.keys.delay) == 1, "the next sweep makes it ready")
        }
    }

    /// Fault: bytes of delayed jobs that a repair had removed stayed counted until a host was held.
    @Test func bytesOfWaitingJobsEndWithTheLastOfThem() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.redis.send(["INCRBY", .string(fixture.keys.heldBytes), "1000"])
            _ = try await claim(1, fixture)
            #expect(try await fixture.count("EXISTS", fixture.keys.heldBytes) == 0)
        }
    }

    /// Fault: a refused call left a key behind that nothing deleted.
    @Test func jobsWhosePredecessorsAreMissingLeaveNothing() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let error = await #expect(throws: RedisError.self) {
                try await fixture.queue.submit(
                    [QueueFixture.job("a")],
                    to: "b",
                    first: 5,
                    isLast: false,
                    policy: .init(),
                    submitter: "me"
                )
            }
            #expect(error?.code == .batchBehind)
            #expect(try await fixture.count("EXISTS", fixture.keys.batch("b")) == 0)
        }
    }

    /// A worker that hears so asks no more until a token arrives: it must be true.
    @Test func aClaimReportsThatOnlyRunningJobsAreLeft() async throws {
        try await QueueFixture.run { (fixture) async throws in
            func claims() async throws -> [Bool] {
                var all: [Bool] = []
                for _ in 0..<2 { all.append(try await claim(1, fixture).isQueueEmpty) }
                return all
            }
            #expect(try await claims() == [true, true])
            for id in ["a", "b"] { try await fixture.push(QueueFixture.job(id)) }
            try await fixture.admitAll(2)
            #expect(try await claims() == [false, true], "one is left after the first claim, none after the second")
            try await fixture.push(QueueFixture.job("high", priority: .high))
            try await fixture.admitAll(1)
            try await fixture.redis.send(["ZADD", .string(fixture.keys.crashes), "99999999999999", "digest"])
            #expect(try await claims() == [true, true])
            try await fixture.push(QueueFixture.job("c"), QueueFixture.job("d"))
            try await fixture.admitAll(2)
            let job = try #require(try await fixture.claim(1).first)
            let queue = fixture.queue
            _ = try await queue.retry(job, worker: "w1", after: .seconds(60), countsAttempt: true, counters: [:])
            #expect(try await claims() == [false, false], "a delayed job is left")
            try await fixture.redis.send(["DEL", .string(fixture.keys.delay), .string(fixture.keys.heldBytes)])
            try await fixture.redis.send(["LPUSH", .string(fixture.keys.suspects), "unknown"])
            #expect(try await claims() == [false, true], "it looked at the suspects, and dropped one that is no job")
            try await fixture.redis.send(["LPUSH", .string(fixture.keys.ready(.normal)), "unknown"])
            #expect(try await claims() == [false, true])
            try await fixture.push(QueueFixture.job("e"))
            try await fixture.admitAll(1)
            try await fixture.queue.set(.paused, to: true)
            #expect(try await claims() == [false, false])
        }
    }

    /// Fault: behind 20,000 leases of other workers, a named dead worker was forgotten while its job still ran. When
    /// its lease ended, a worker of several shards counted as one with a single job, whose source is to blame.
    @Test func aDeadWorkerBehindManyLeasesIsNotForgotten() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.admitAll(1)
            let job = try #require(try await fixture.claim(1, worker: "w1", lease: .seconds(600)).first)
            var info = WorkerInfo(concurrency: 4)
            (info.shards, info.renewal, info.lease) = (3, 200, 600)
            let running = [(job.key.text, job.attempt)]
            _ = try await fixture.queue.renew(running, worker: "w1", lease: .seconds(600), info: info.json)
            let soon = try await fixture.queue.now() + 60_000
            let others = (0..<20_000).flatMap { [RedisArgument.int(soon), .string("x\($0)")] }
            try await fixture.redis.send(RedisCommand(["ZADD", .string(fixture.keys.lease)] + others))
            _ = try await fixture.queue.sweep(dead: ["w1"])
            #expect(try await fixture.count("HLEN", fixture.keys.workerInfo) == 1)
            try await fixture.redis.send(["ZREMRANGEBYSCORE", .string(fixture.keys.lease), "-inf", .int(soon)])
            #expect(try await fixture.queue.sweep(dead: ["w1"]) == 1)
            #expect(try await fixture.count("HLEN", fixture.keys.workerInfo) == 0)
            let digest = try Job(json: job.json).sourceDigest
            let key = RedisArgument.string(fixture.keys.crashes)
            let score = try await fixture.redis.send(["ZSCORE", key, .string(digest)]).string
            #expect(Int(try #require(score.flatMap(Double.init))) % 8 == 1)
        }
    }
}
