import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// The first bytes of a host that has never answered, on a real Redis.
@Suite(.timeLimit(.minutes(2))) struct FirstAnswerTests {
    private let url = URL(string: "https://example.org/a.jpg")!
    private let host = "example.org:443"

    private func run(_ body: (HostRateLimiter, QueueFixture) async throws -> Void) async throws {
        var limits = HostLimits()
        (limits.concurrency, limits.failureThreshold, limits.firstConcurrency) = (4, 3, 2)
        try await QueueFixture.run { (fixture) async throws in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let limiter = HostRateLimiter(redis: fixture.redis, keys: fixture.keys, limits: limits, logger: logger)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await limiter.run() }
                try await body(limiter, fixture)
                group.cancelAll()
            }
        }
    }

    private func isRefused(_ limiter: HostRateLimiter) async -> Bool {
        do throws(ImagePipeline.Error) {
            await limiter.release(try await limiter.acquire(for: url), outcome: .none)
            return false
        } catch {
            return true
        }
    }

    @Test func theQueueKnowsHowFarAHostHasAnswered() async throws {
        try await run { (limiter, fixture) async throws in
            let other = "other.example:443"
            func answer() async throws -> JobQueue.HostAnswer? {
                let answers = try await fixture.queue.answers(of: [host, other])
                #expect(answers[other] == nil)
                return answers[host]
            }
            #expect(try await answer() == nil)
            let permit = try await limiter.acquire(for: url)
            #expect(try await answer() == .nothing)
            // Until `run` has begun, nothing is reported.
            while !Task.isCancelled, try await answer() == .nothing {
                limiter.noteFirstBytes(permit)
                await Task.yield()
            }
            #expect(try await answer() == .firstBytes)
            await limiter.release(permit, outcome: .answered)
            #expect(try await answer() == .whole)
            let all = ShardedQueue(fixture.queue)
            #expect(try await all.answers(of: [host, other]) == [host: .whole])
            #expect(try await all.answers(of: []).isEmpty)
        }
    }

    /// Fault: after a change of the number of shards, one that had kept the limits of a host before hid its new state.
    @Test func theShardOfAHostKnowsItsAnswer() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = server.client()
            defer { client.close() }
            let shards = (0..<2).map { JobQueue(client, keys: QueueKeys(queue: "test", shard: $0)) }
            let queue = ShardedQueue(shards, layout: ShardLayout(count: 2, id: "x"))
            let hosts = (0..<8).map { "h\($0).example:443" }
            #expect(Set(hosts.map { HostLimiters.shard(of: $0, count: 2) }).count == 2)
            for (number, shard) in shards.enumerated() {
                for host in hosts {
                    let answer = HostLimiters.shard(of: host, count: 2) == number ? 2 : 1
                    let text = "1 0 1 0 0 0 0 200000 0 0 0 \(answer)"
                    try await client.send(["HSET", .string(shard.keys.rate), .string(host), .string(text)])
                }
            }
            let answers = try await queue.answers(of: hosts)
            #expect(answers.count == 8 && answers.values.allSatisfy { $0 == .firstBytes })
        }
    }

    /// Earlier versions write eleven numbers: such a host may have answered. Another program may write any text.
    @Test func theTwelfthNumberIsTheAnswer() {
        typealias Answer = JobQueue.HostAnswer
        for (last, answer) in [("", Answer.whole), (" 0", .nothing), (" 1", .whole), (" 2", .firstBytes)] {
            for word in ["", " timeout"] {
                let text = "1 0 1 0 0 0 0 200000 0 0 0\(last)\(word)"
                #expect(Answer(stored: text) == answer, "\(text)")
            }
        }
        // Fault: hosts that fail, or refuse requests, were taken to answer, and used up the room for slow ones.
        for heard in 0...2 {
            #expect(Answer(stored: "1 0 1 0 1 0 0 200000 0 0 0 \(heard) timeout") == .nothing, "it fails")
            #expect(Answer(stored: "1 0 0.5 0 0 0 0 200000 0 0 0 \(heard)") == .nothing, "it refuses requests")
        }
        #expect(Answer(stored: "") == .whole && Answer(stored: "a 2 nan") == .whole)
    }

    @Test func theyLiftTheLimitAndWakeTheJobsOfTheHost() async throws {
        try await run { (limiter, fixture) async throws in
            let permits = [try await limiter.acquire(for: url), try await limiter.acquire(for: url)]
            #expect(await isRefused(limiter))
            let held = RedisArgument.string(fixture.keys.held)
            try await fixture.redis.send(["ZADD", held, .string("99999999999999"), .string(host)])
            // Until `run` has begun, nothing is reported.
            while !Task.isCancelled, try await fixture.redis.send(["LLEN", .string(fixture.keys.wake)]).int == 0 {
                limiter.noteFirstBytes(permits[0])
                await Task.yield()
            }
            let turn = try await fixture.redis.send(["ZSCORE", held, .string(host)]).string.flatMap(Double.init)
            let now = Double(try await fixture.queue.now())
            #expect(turn.map { $0 <= now } == true)
            for permit in permits { limiter.noteFirstBytes(permit) }
            #expect(try await limiter.acquire(for: url).token != nil)
            #expect(try await limiter.acquire(for: url).token != nil)
            #expect(await isRefused(limiter), "four at a time")
            #expect(try await fixture.redis.send(["LLEN", .string(fixture.keys.wake)]).int == 1)
        }
    }

    /// A response may end early, or be of no use: as many failures open the circuit as without any bytes, it stays
    /// open, and the host is given up as soon.
    @Test(arguments: [0, 2]) func theyAreNoSuccess(failuresBefore count: Int) async throws {
        try await run { (limiter, fixture) async throws in
            func fail() async throws -> HostTurn? {
                await limiter.release(try await limiter.acquire(for: url), outcome: .absent, cause: nil)
            }
            for _ in 0..<count { #expect(try await fail() == nil) }
            let keys = [fixture.keys.rate, fixture.keys.held, fixture.keys.wake]
            for reply in [1, 0] {
                let known = try await fixture.redis.run(
                    HostScripts.noteAnswer,
                    keys: keys,
                    arguments: [.string(host)]
                )
                #expect(known.int == reply)
            }
            for _ in count..<2 {
                #expect(!(await isRefused(limiter)))
                #expect(try await fail() == nil)
            }
            #expect(await isRefused(limiter), "two failures, and not three")
            let rate = RedisArgument.string(fixture.keys.rate)
            let state = try await fixture.redis.send(["HGET", rate, .string(host)]).string ?? ""
            var numbers = state.split(separator: " ").map(String.init)
            (numbers[1], numbers[5]) = (String(Int(try await fixture.queue.now()) - 11_000), "0")
            try await fixture.redis.send(["HSET", rate, .string(host), .string(numbers.joined(separator: " "))])
            #expect(try await fail()?.isGivenUp == true)
        }
    }

    /// Fault: in the time between two failures of a silent host, two more requests began, and their jobs waited as
    /// long.
    @Test func aFailureCountsAsOneOfTheFirstRequests() async throws {
        try await run { (limiter, _) async throws in
            let permits = [try await limiter.acquire(for: url), try await limiter.acquire(for: url)]
            await limiter.release(permits[0], outcome: .absent, cause: nil)
            #expect(await isRefused(limiter))
            await limiter.release(permits[1], outcome: .answered, cause: nil)
            #expect(!(await isRefused(limiter)))
        }
    }
}
