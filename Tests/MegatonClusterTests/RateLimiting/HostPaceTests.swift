import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import Testing

@testable import MegatonCluster

/// The time from one turn of the held jobs of a host to the next, which its last refusal has set.
@Suite(.timeLimit(.minutes(2))) struct HostPaceTests {
    private let url = URL(string: "https://example.org/a.jpg")!
    private let host = "example.org:443"

    /// Fault: after some seconds of refusals a host got as few requests as during them, for as long as it held jobs.
    @Test func thePaceOfAnOutageEndsWithIt() async throws {
        var limits = HostLimits()
        limits.concurrency = 16
        try await QueueFixture.run { (fixture) async throws in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let limiter = HostRateLimiter(redis: fixture.redis, keys: fixture.keys, limits: limits, logger: logger)
            await limiter.release(try await limiter.acquire(for: url), outcome: .answered)
            // Half of the limits, so that each permit is released at once.
            let rate = RedisArgument.string(fixture.keys.rate)
            let state = try await fixture.redis.send(["HGET", rate, .string(host)]).string ?? ""
            var numbers = state.split(separator: " ").map(String.init)
            numbers[2] = "0.5"
            try await fixture.redis.send(["HSET", rate, .string(host), .string(numbers.joined(separator: " "))])
            let pace = RedisArgument.string(fixture.keys.pace)
            try await fixture.redis.send(["HSET", pace, .string(host), "800000"])
            func answer() async throws -> String? {
                await limiter.release(try await limiter.acquire(for: url), outcome: .answered)
                return try await fixture.redis.send(["HGET", pace, .string(host)]).string
            }
            #expect(try await answer() == "400000")
            #expect(try await answer() == "200000")
            var busy: [FetchPermit] = []
            for _ in 0..<4 { busy.append(try await limiter.acquire(for: url)) }
            #expect(try await answer() == "200000", "half of its slots are taken")
            for permit in busy { await limiter.release(permit, outcome: .answered) }
            try await fixture.redis.send(["HSET", pace, .string(host), "-1"])
            #expect(try await answer() == "-1", "it was given up")
        }
    }
}
