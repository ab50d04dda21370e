import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// Host limits of a queue with several shards, on a real Redis.
@Suite(.timeLimit(.minutes(1))) struct HostLimitersTests {
    /// The limits of a queue with several shards on one Redis, and the keys of each shard.
    private func limiters(of count: Int, concurrency: Int, _ fixture: QueueFixture) -> (HostLimiters, [QueueKeys]) {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        var limits = HostLimits()
        limits.concurrency = concurrency
        let keys = (0..<count).map { QueueKeys(queue: "test", shard: $0) }
        let shards = keys.map { HostRateLimiter(redis: fixture.redis, keys: $0, limits: limits, logger: logger) }
        let limiters = HostLimiters(shards[0])
        limiters.use(Array(shards.dropFirst()))
        return (limiters, keys)
    }

    @Test func oneShardKeepsTheLimitsOfAHost() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (limiters, keys) = limiters(of: 3, concurrency: 2, fixture)
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

    @Test func eachSchemeHasItsPort() throws {
        for (text, name) in [("ftp://h/a", "h:21"), ("http://h/a", "h:80"), ("https://h/a", "h:443")] {
            #expect(OriginHost.name(of: try #require(URL(string: text))) == name)
        }
    }

    /// Fault: a purge of a host in another spelling than that of its entries found none.
    @Test(arguments: [
        ("Bücher.Example", "xn--bcher-kva.example"), ("example.org.", "example.org"), ("[::1]:8080", "::1:8080"),
        ("h:80", "h:80"), ("127.1", "127.0.0.1"), ("", ""),
    ]) func aHostIsNamedInAnySpelling(text: String, name: String) { #expect(OriginHost.named(text) == name) }

    /// Fault: under a steady load the jobs in the shard of the host got each turn at once, and those in other shards
    /// came when the slot was taken again.
    @Test func jobsOfOtherShardsHaveEveryOtherTurn() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (limiters, keys) = limiters(of: 2, concurrency: 1, fixture)
            let url = try #require(URL(string: "https://example.org/a.jpg"))
            let home = HostLimiters.shard(of: "example.org:443", count: 2)
            let held = RedisArgument.string(keys[home].held)
            /// Ends a request while jobs wait in the shard of the host, and one of `shard` has been held.
            func turn(held shard: Int?, next later: Int) async throws -> Int {
                try await fixture.redis.send(["ZADD", held, .int(later), "example.org:443"])
                let permit = try await limiters.acquire(for: url)
                if let shard {
                    limiters.noteHeld(by: "example.org:443", in: shard)
                    // Reported with the next request, of whichever job.
                    await #expect(throws: ImagePipeline.Error.self) { _ = try await limiters.acquire(for: url) }
                }
                await limiters.release(permit, outcome: .answered)
                return try await fixture.redis.send(["ZSCORE", held, "example.org:443"]).string.flatMap(Int.init) ?? 0
            }
            let later = try await fixture.queue.now() + 600_000
            // Nothing waits in the other shard.
            for shard in [nil, home, nil] { #expect(try await turn(held: shard, next: later) < later) }
            var isOwn: [Bool] = []
            for _ in 0..<6 { isOwn.append(try await turn(held: 1 - home, next: later) < later) }
            #expect(isOwn == [false, true, false, true, false, true])
            // The turn that was left to the others comes before the next own one.
            let now = try await fixture.queue.now()
            #expect(try await turn(held: nil, next: 1) > now + 50)
            for _ in 0..<2 { #expect(try await turn(held: nil, next: later) < later) }
        }
    }

    /// Fault: for five seconds after an error of one key, or a lost connection, all hosts of the shard had no limits.
    @Test func aDamagedKeyOfAHostLeavesTheOthersLimited() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (limiters, keys) = limiters(of: 2, concurrency: 1, fixture)
            let names = (0..<40).map { "h\($0).example.org" }.filter {
                HostLimiters.shard(of: "\($0):443", count: 2) == 0
            }
            try await fixture.redis.send(["SET", .string(keys[0].fetching("\(names[0]):443")), "damaged"])
            let urls = try names.prefix(2).map { try #require(URL(string: "https://\($0)/a.jpg")) }
            #expect(try await limiters.acquire(for: urls[0]).token == nil)
            #expect(try await limiters.acquire(for: urls[1]).token != nil)
            await #expect(throws: ImagePipeline.Error.self) { _ = try await limiters.acquire(for: urls[1]) }
        }
    }

    /// Fault: while a shard was away, each request to one of its hosts waited for it, and held a place meanwhile that
    /// jobs of the other shards needed.
    @Test func aShardThatIsAwayIsAskedOnce() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await RedisServerProcess.run { (other) async throws in
                let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
                let away = other.client()
                defer { away.close() }
                try await away.connect()
                var limits = HostLimits()
                limits.concurrency = 1
                let clients = [fixture.redis, away]
                let shards = clients.enumerated().map { number, redis in
                    let keys = QueueKeys(queue: "test", shard: number)
                    return HostRateLimiter(redis: redis, keys: keys, limits: limits, logger: logger)
                }
                let limiters = HostLimiters(shards[0])
                limiters.use([shards[1]])
                var urls: [[URL]] = [[], []]
                for number in 0..<40 {
                    let host = "h\(number).example.org"
                    let url = try #require(URL(string: "https://\(host)/a.jpg"))
                    urls[HostLimiters.shard(of: "\(host):443", count: 2)].append(url)
                }
                await other.crash()
                // Only the first waits for Redis, for 5 s. If all did, the suite would not end in time.
                #expect(urls[1].count > 12)
                for url in urls[1] { #expect(try await limiters.acquire(for: url).token == nil) }
                let permit = try await limiters.acquire(for: urls[0][0])
                #expect(permit.token != nil, "the hosts of the other shard stay limited")
                await #expect { _ = try await limiters.acquire(for: urls[0][0]) } throws: {
                    ($0 as? ImagePipeline.Error)?.code == .throttled
                }
                await limiters.release(permit, outcome: .answered)
            }
        }
    }
}
