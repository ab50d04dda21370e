import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import Testing

@testable import MegatonCluster

/// Host limits of a queue with several shards, on a real Redis.
@Suite(.timeLimit(.minutes(1))) struct HostLimitersTests {
    @Test func oneShardKeepsTheLimitsOfAHost() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            var limits = HostLimits()
            limits.concurrency = 2
            let keys = (0..<3).map { QueueKeys(queue: "test", shard: $0) }
            let shards = keys.map { HostRateLimiter(redis: fixture.redis, keys: $0, limits: limits, logger: logger) }
            let limiters = HostLimiters(shards[0])
            limiters.use(Array(shards.dropFirst()))
            var used: Set<Int> = []
            for number in 0..<30 {
                let host = "h\(number).example.org"
                let url = try #require(URL(string: "https://\(host)/a.jpg"))
                let permits = [try await limiters.acquire(for: url), try await limiters.acquire(for: url)]
                await #expect { _ = try await limiters.acquire(for: url) } throws: {
                    ($0 as? ImagePipeline.Error)?.code == .throttled
                }
                var counts: [Int] = []
                for keys in keys { counts.append(try await fixture.count("ZCARD", keys.fetching("\(host):443"))) }
                let home = HostLimiters.shard(of: "\(host):443", count: 3)
                #expect(counts.enumerated().allSatisfy { $0.element == ($0.offset == home ? 2 : 0) }, "\(counts)")
                used.insert(home)
                for permit in permits { await limiters.release(permit, outcome: .answered) }
                #expect(try await fixture.count("ZCARD", keys[home].fetching("\(host):443")) == 0)
            }
            #expect(used == [0, 1, 2])
        }
    }
}
