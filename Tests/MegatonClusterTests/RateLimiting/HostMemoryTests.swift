import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// Which hosts are forgotten if there are too many.
@Suite(.timeLimit(.minutes(2))) struct HostMemoryTests {
    /// The state of a host without limits that has answered.
    private static let free = "0 0 1.000000 0 0 0 0 0 0 0 0 1"

    /// Fills the memory with hosts of two kinds, and ends a request to each of 300 new hosts.
    private func strangers(_ first: String, _ second: String, _ body: (Int, Int) throws -> Void) async throws {
        try await QueueFixture.run { (fixture) async throws in
            let rate = RedisArgument.string(fixture.keys.rate)
            let now = try await fixture.queue.now()
            let states = [first, second].map {
                RedisArgument.string(
                    $0.replacing("TAT", with: "\((now + 3_600_000) * 1000)").replacing(
                        "OPEN",
                        with: "\(now + 3_600_000)"
                    )
                )
            }
            for start in stride(from: 0, to: 25_000, by: 1000) {
                let fields = (start..<start + 1000).flatMap { number -> [RedisArgument] in
                    [.string("first\(number):443"), states[0], .string("second\(number):443"), states[1]]
                }
                try await fixture.redis.send(RedisCommand(["HSET", rate] + fields))
            }
            let limiter = HostRateLimiter(
                redis: fixture.redis,
                keys: fixture.keys,
                limits: HostLimits(),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            )
            for number in 0..<300 {
                let url = try #require(URL(string: "https://new\(number).example/a.jpg"))
                await limiter.release(try await limiter.acquire(for: url), outcome: .failed)
            }
            let names = try await fixture.redis.send(["HKEYS", rate]).array?.compactMap(\.string) ?? []
            #expect(names.count == 50_000, "the newest host replaces one")
            try body(
                names.filter { $0.hasPrefix("first") }.count,
                names.filter { $0.hasPrefix("second") }.count
            )
        }
    }

    /// Fault: the host could have a second burst at once.
    @Test func aHostThatMustWaitForItsRateIsNotForgotten() async throws {
        try await strangers(Self.free, "TAT 0 1.000000 0 0 0 0 0 0 0 0 1") { free, waiting in
            #expect(waiting == 25_000 && free == 24_700)
        }
    }

    /// Fault: jobs of dead hosts spent all of their attempts on time-outs, as their circuits were forgotten.
    @Test func anOpenCircuitIsForgottenLast() async throws {
        try await strangers("0 0 1.000000 0 2 0 0 0 0 0 0 1", "0 0 1.000000 0 2 OPEN 0 0 0 0 0 1") { failing, open in
            #expect(open == 25_000 && failing >= 24_700)
        }
    }
}
