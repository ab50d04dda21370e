import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Synchronization
import Testing

@testable import MegatonCluster

/// Host limits that Redis refuses: requests pass, and a warning says so.
@Suite(.timeLimit(.minutes(2))) struct HostLimitFailureTests {
    private let url = URL(string: "https://example.org/a.jpg")!
    private let other = URL(string: "https://example.com/a.jpg")!

    private func limiter(_ redis: RedisClient, _ keys: QueueKeys, _ lines: LogLines) -> HostRateLimiter {
        let logger = lines.logger(from: .notice)
        return HostRateLimiter(redis: redis, keys: keys, limits: HostLimits(), logger: logger)
    }

    /// Whether a request gets a permit from Redis.
    private func getsPermit(_ limiter: HostRateLimiter, _ url: URL) async throws -> Bool {
        let permit = try await limiter.acquire(for: url)
        await limiter.release(permit, outcome: .answered)
        return permit.token != nil
    }

    /// Fault: a key of another type lifted the limits of all hosts, and only a debug line said that Redis was away.
    @Test func aKeyOfAnotherTypeIsReportedOnceUntilTheLimitsWork() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let lines = LogLines()
            let limiter = limiter(fixture.redis, fixture.keys, lines)
            let rate = RedisArgument.string(fixture.keys.rate)
            for round in 1...2 {
                try await fixture.redis.send(["SET", rate, "no hash"])
                for url in [url, other, url] {
                    let isLimited = try await getsPermit(limiter, url)
                    #expect(!isLimited)
                }
                #expect(lines.warnings.count == round, "\(lines.all)")
                try await fixture.redis.send(["DEL", rate])
                let isLimited = try await getsPermit(limiter, url)
                #expect(isLimited)
                #expect(lines.all.count == 2 * round && lines.all.last?.contains("apply again") == true, "\(lines.all)")
            }
            let warning = try #require(lines.warnings.first)
            #expect(warning.contains("WRONGTYPE") && warning.contains(fixture.keys.rate), "\(warning)")
            #expect(warning.contains(fixture.keys.fetching("example.org:443")), "\(warning)")
        }
    }

    /// A host whose own key cannot be used is reported once, whatever the requests to other hosts do.
    @Test func anotherHostDoesNotRepeatTheReport() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let lines = LogLines()
            let limiter = limiter(fixture.redis, fixture.keys, lines)
            try await fixture.redis.send(["SET", .string(fixture.keys.fetching("example.org:443")), "no set"])
            for _ in 0..<3 {
                let (isFirst, isOther) = (try await getsPermit(limiter, url), try await getsPermit(limiter, other))
                #expect(!isFirst && isOther)
            }
            #expect(lines.all.count == 1 && lines.warnings.count == 1, "\(lines.all)")
        }
    }

    /// Fault: after the failure of one host, that of all hosts was not reported.
    @Test func aFailureOfAllHostsIsReportedAfterThatOfOne() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let lines = LogLines()
            let redis = fixture.server.client()
            let limiter = limiter(redis, fixture.keys, lines)
            try await fixture.redis.send(["SET", .string(fixture.keys.fetching("example.org:443")), "no set"])
            var isLimited = try await getsPermit(limiter, url)
            #expect(!isLimited && lines.warnings.count == 1)
            try await fixture.redis.send(["ACL", "SETUSER", "default", "-evalsha"])
            isLimited = try await getsPermit(limiter, other)
            #expect(!isLimited && lines.warnings.count == 2, "\(lines.all)")
            try await fixture.redis.send(["ACL", "SETUSER", "default", "+evalsha"])
            redis.close()
        }
    }

    /// Fault: while Redis was away, each request waited 5 s for it.
    @Test func onlyTheFirstRequestWaitsForRedisThatIsAway() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let lines = LogLines()
            let redis = fixture.server.client()
            defer { redis.close() }
            let limiter = limiter(redis, fixture.keys, lines)
            let task = Task { await limiter.run() }
            let held = try await limiter.acquire(for: other)
            #expect(held.token != nil)
            await fixture.server.crash()
            // If all waited for 5 s, the suite would not end in time.
            for _ in 0..<60 {
                let isLimited = try await getsPermit(limiter, url)
                #expect(!isLimited)
            }
            #expect(lines.warnings.filter { $0.contains("host limits are off") }.count == 1, "\(lines.all)")
            await limiter.release(held, outcome: .answered)
            try await fixture.server.startAgain()
            while try await !getsPermit(limiter, url) { try Task.checkCancellation() }
            #expect(lines.all.last?.contains("apply again") == true, "\(lines.all)")
            task.cancel()
            await task.value
        }
    }

    @Test func aMissingRightIsReportedWithItsRemedy() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.redis.send(["ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all", "-evalsha"])
            var configuration = fixture.server.configuration
            (configuration.username, configuration.password) = ("ann", "pw")
            let redis = RedisClient(
                configuration,
                role: "ann",
                group: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            )
            defer { redis.close() }
            let lines = LogLines()
            let limiter = limiter(redis, fixture.keys, lines)
            for _ in 0..<3 {
                let isLimited = try await getsPermit(limiter, url)
                #expect(!isLimited)
            }
            let warning = try #require(lines.warnings.first)
            #expect(lines.warnings.count == 1, "\(lines.all)")
            #expect(warning.contains("NOPERM") && warning.contains("docs/credentials.md"), "\(warning)")
            try await fixture.redis.send(["ACL", "SETUSER", "ann", "+evalsha"])
            let isLimited = try await getsPermit(limiter, url)
            #expect(isLimited)
        }
    }
}
