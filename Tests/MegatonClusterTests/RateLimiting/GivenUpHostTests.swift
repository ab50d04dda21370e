import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// When the jobs of a host that does not answer end, on a real Redis; time is simulated by changing Redis' state.
@Suite(.timeLimit(.minutes(2))) struct GivenUpHostTests {
    private let url = URL(string: "https://example.org/a.jpg")!
    private let host = "example.org:443"

    private func run(_ body: (HostRateLimiter, QueueFixture) async throws -> Void) async throws {
        var limits = HostLimits()
        (limits.failureThreshold, limits.firstConcurrency, limits.patience) = (3, 2, .seconds(60))
        try await QueueFixture.run { (fixture) async throws in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            try await body(
                HostRateLimiter(redis: fixture.redis, keys: fixture.keys, limits: limits, logger: logger),
                fixture
            )
        }
    }

    private func end(_ limiter: HostRateLimiter, _ outcome: OriginOutcome) async throws -> HostTurn? {
        await limiter.release(try await limiter.acquire(for: url), outcome: outcome, cause: nil)
    }

    /// The error of a refused request, or nil.
    private func refusal(_ limiter: HostRateLimiter) async -> ImagePipeline.Error? {
        do throws(ImagePipeline.Error) {
            _ = try await limiter.acquire(for: url)
            return nil
        } catch {
            return error
        }
    }

    /// Moves the time since when the host fails into the past, and ends the pause before the next probe.
    private func wait(_ time: Duration, _ fixture: QueueFixture) async throws {
        let key = RedisArgument.string(fixture.keys.rate)
        let state = try await fixture.redis.send(["HGET", key, .string(host)]).string ?? ""
        var numbers = state.split(separator: " ").map(String.init)
        numbers[1] = String(Int(try await fixture.queue.now()) - time.wholeMilliseconds)
        numbers[5] = "0"
        try await fixture.redis.send(["HSET", key, .string(host), .string(numbers.joined(separator: " "))])
    }

    /// Fault: the job whose probe failed made all of its attempts, each as long as a connection that is not answered.
    @Test func theFailureOfAProbeGivesTheHostUp() async throws {
        try await run { (limiter, fixture) async throws in
            for _ in 0..<2 { #expect(try await end(limiter, .absent) == nil) }
            try await wait(.seconds(11), fixture)
            let turn = try await end(limiter, .absent)
            #expect(turn?.isGivenUp == true && turn?.host == host)
            try await wait(.seconds(11), fixture)
            #expect(try await end(limiter, .answered) == nil)
            #expect(try await end(limiter, .absent) == nil, "its failures begin anew")
        }
    }

    /// Fault: a host with a single job never opened its circuit, and the job tried five times.
    @Test func aHostWithFewJobsNeedsNoOpenCircuit() async throws {
        try await run { (limiter, fixture) async throws in
            #expect(try await end(limiter, .absent) == nil)
            try await wait(.seconds(9), fixture)
            #expect(try await end(limiter, .none) == nil)
            try await wait(.seconds(11), fixture)
            #expect(try await end(limiter, .absent)?.isGivenUp == true)
        }
    }

    /// The state of a host stays until it is needed for another one: a failure of yesterday is no part of today's.
    @Test func aFailureOfLongAgoIsAnotherOutage() async throws {
        try await run { (limiter, fixture) async throws in
            #expect(try await end(limiter, .absent) == nil)
            try await wait(.seconds(400), fixture)
            #expect(try await end(limiter, .absent) == nil)
            try await wait(.seconds(11), fixture)
            #expect(try await end(limiter, .absent)?.isGivenUp == true)
        }
    }

    /// A host that answers with failures has the whole patience, from the time at which its circuit opened.
    @Test(arguments: [(OriginOutcome.failed, 1), (.answered, 3), (.throttled(seconds: 0), 2)])
    func aHostThatHasAnsweredHasMoreTime(_ first: OriginOutcome, _ failuresUntilItOpens: Int) async throws {
        try await run { (limiter, fixture) async throws in
            #expect(try await end(limiter, .absent) == nil)
            try await wait(.seconds(50), fixture)
            #expect(try await end(limiter, first) == nil)
            for _ in 0..<failuresUntilItOpens { #expect(try await end(limiter, .absent) == nil) }
            try await wait(.seconds(50), fixture)
            #expect(try await end(limiter, .absent) == nil)
            try await wait(.seconds(61), fixture)
            #expect(try await end(limiter, .absent)?.isGivenUp == true)
        }
    }

    /// Fault: held jobs waited for the next probe, although their host was to be given up before.
    @Test func heldJobsComeBackWhenThePatienceEnds() async throws {
        try await run { (limiter, fixture) async throws in
            for _ in 0..<2 { #expect(try await end(limiter, .absent) == nil) }
            try await wait(.seconds(8), fixture)
            #expect(try await end(limiter, .absent) == nil)
            let turn = try #require(await refusal(limiter)?.hostTurn)
            #expect(turn.wait <= 2.01 && !turn.isGivenUp, "\(turn)")
        }
    }

    /// Fault: the jobs of a host that accepts connections and never answers waited for the end of its probe, six
    /// seconds longer than they are to wait.
    @Test func jobsDoNotWaitForTheProbeOfASilentHost() async throws {
        try await run { (limiter, fixture) async throws in
            for _ in 0..<2 { #expect(try await end(limiter, .absent) == nil) }
            try await wait(.seconds(8), fixture)
            let probe = try await limiter.acquire(for: url)
            let early = try #require(await refusal(limiter))
            #expect(early.code == .throttled && early.message.contains("a probe is under way"))
            let turn = try #require(early.hostTurn)
            #expect(!turn.isGivenUp && turn.isOpen == true && turn.wait <= 2.01, "\(turn)")
            try await wait(.seconds(11), fixture)
            let late = try #require(await refusal(limiter))
            #expect(late.code == .unreachable && late.hostTurn?.isGivenUp == true)
            #expect(await limiter.release(probe, outcome: .answered, cause: nil) == nil)
            #expect(await refusal(limiter) == nil, "it has answered")
        }
    }

    /// A host that has answered once is about to come back: its jobs wait for the probe.
    @Test func jobsWaitForTheProbeOfAHostThatHasAnswered() async throws {
        try await run { (limiter, fixture) async throws in
            #expect(try await end(limiter, .answered) == nil)
            for _ in 0..<3 { #expect(try await end(limiter, .absent) == nil) }
            try await wait(.seconds(61), fixture)
            let probe = try await limiter.acquire(for: url)
            let turn = try #require(await refusal(limiter)?.hostTurn)
            #expect(!turn.isGivenUp && turn.isOpen == nil, "\(turn)")
            #expect(await limiter.release(probe, outcome: .answered, cause: nil) == nil)
        }
    }

    /// Fault: after ten seconds without a byte, the jobs of a silent host waited for a probe of ten seconds more.
    @Test func requestsThatWereSilentForLongAreProbes() async throws {
        try await run { (limiter, fixture) async throws in
            let keys = fixture.keys
            func end(after seconds: Int) async throws -> Int? {
                let permit = try await limiter.acquire(for: url)
                let reply = try await fixture.redis.run(
                    HostScripts.releasePermit,
                    keys: [keys.rate, keys.fetching(host), keys.held, keys.wake, keys.pace],
                    arguments: [
                        .string(host), .string(permit.token ?? ""), "absent", "0", "3", "5000", "300000",
                        .int(seconds * 1_000_000), "1", "64", "2", "",
                    ]
                )
                return reply.array?[1].int
            }
            #expect(try await end(after: 11) ?? 0 < 5000, "one request proves little")
            #expect(try await end(after: 11) ?? 0 >= 11_000)
            #expect(await refusal(limiter)?.hostTurn?.isGivenUp == true)
        }
    }
}
