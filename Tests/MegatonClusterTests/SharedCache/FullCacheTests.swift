import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Synchronization
import Testing

@testable import MegatonCluster
@testable import MegatonPipeline

/// A cache Redis that is full and may not evict behaves like an absent one.
@Suite(.timeLimit(.minutes(2))) struct FullCacheTests {
    private typealias Peer = InFlightLockTests.Peer

    private let key = CacheKey(.original, ["a"])
    private let entry = CachedData(data: Data(count: 50_000), metadata: .init(lifetime: 3600))
    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    /// Fault: the waiters of a source asked its origin one after the other, each as the leader of a flight whose entry
    /// was refused.
    @Test func waitersLeadAtTheSameTime() async throws {
        try await RedisServerProcess.run { server in
            let peers = (0..<6).map { Peer(server.configuration, "peer\($0)") }
            defer { for peer in peers { peer.client.close() } }
            let client = server.client()
            defer { client.close() }
            let first = try #require(await peers[0].lock.begin([key]).first?.leader)
            for peer in peers.dropFirst() {
                guard case .wait? = await peer.lock.begin([key]).first else {
                    Issue.record("it does not wait")
                    return
                }
            }
            try await client.send(["CONFIG", "SET", "maxmemory", "1"])
            #expect(await peers[0].lock.finish([(first, entry)]) == [])
            for peer in peers.dropFirst() {
                let lead = await peer.lock.begin([key]).first?.leader
                #expect(lead != nil, "it need not wait for the others")
                if let lead { await peer.lock.finish([(lead, entry)]) }
            }
        }
    }

    /// As long as the refusal counts, nothing is uploaded, and no caller waits for another one. Afterwards the cache
    /// works again.
    @Test func nothingIsUploadedToAFullCache() async throws {
        try await RedisServerProcess.run { server in
            let (one, two) = (Peer(server.configuration, "one"), Peer(server.configuration, "two"))
            defer { for peer in [one, two] { peer.client.close() } }
            let client = server.client()
            defer { client.close() }
            let stored = try #require(await one.lock.begin([CacheKey(.original, ["old"])]).first?.leader)
            await one.lock.finish([(stored, entry)])
            try await client.send(["CONFIG", "SET", "maxmemory", "1"])
            let refused = try #require(await one.lock.begin([key]).first?.leader)
            await one.lock.finish([(refused, entry)])
            let before = try await bytesReceived(client)
            for number in 0..<10 {
                let other = CacheKey(.original, ["\(number)"])
                let lead = try #require(await one.lock.begin([other]).first?.leader)
                #expect(await one.lock.finish([(lead, entry)]) == [])
            }
            #expect(try await bytesReceived(client) - before < 50_000, "not even one entry was sent")
            _ = try #require(await two.lock.begin([CacheKey(.original, ["busy"])]).first?.leader)
            let lead = try #require(await one.lock.begin([CacheKey(.original, ["busy"])]).first?.leader)
            #expect(lead.token == nil, "the flight cannot have a result")
            guard case .hit? = await one.lock.begin([CacheKey(.original, ["old"])]).first else {
                Issue.record("an entry of a full cache was not found")
                return
            }
        }
    }

    /// Fault: an entry stayed, and could be served stale, although the origin forbade to store the new response.
    @Test func anEntryThatIsNoLongerValidIsDeleted() async throws {
        try await RedisServerProcess.run { server in
            let peer = Peer(server.configuration, "one")
            let client = server.client()
            defer { for client in [peer.client, client] { client.close() } }
            var stale = entry
            (stale.metadata.lifetime, stale.metadata.etag) = (0, "\"1\"")
            let first = try #require(await peer.lock.begin([key]).first?.leader)
            await peer.lock.finish([(first, stale)])
            let second = try #require(await peer.lock.begin([key]).first?.leader)
            #expect(second.stale != nil)
            try await client.send(["CONFIG", "SET", "maxmemory", "1"])
            await peer.lock.finish([(second, nil)])
            #expect(try await client.send(["EXISTS", .string(CacheKeys.entry(key))]).int == 0)
        }
    }

    /// Fault: the new lifetime of an entry that the origin had confirmed was refused, so that each later request asked
    /// the origin again.
    @Test func aConfirmedEntryIsFreshInAFullCacheToo() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let (one, two) = (Peer(server.configuration, "one"), Peer(server.configuration, "two"))
            let client = server.client()
            defer { for client in [one.client, two.client, client] { client.close() } }
            var stale = entry
            (stale.metadata.lifetime, stale.metadata.etag) = (0, "\"1\"")
            let first = try #require(await one.lock.begin([key]).first?.leader)
            await one.lock.finish([(first, stale)])
            let second = try #require(await one.lock.begin([key]).first?.leader)
            var confirmed = try #require(second.stale)
            (confirmed.metadata.lifetime, confirmed.staleness) = (3600, nil)
            try await client.send(["CONFIG", "SET", "maxmemory", "1"])
            #expect(await one.lock.finish([(second, confirmed)]) == [key])
            guard case .hit(let found)? = await two.lock.begin([key]).first else {
                Issue.record("it is not fresh")
                return
            }
            #expect(found.data == entry.data && found.metadata.lifetime > 3000 && found.metadata.etag == "\"1\"")
        }
    }

    /// The bytes of a confirmed entry may be gone by then: it has been evicted.
    @Test func aConfirmedEntryThatIsGoneIsNotStoredInAFullCache() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let peer = Peer(server.configuration, "one")
            let client = server.client()
            defer { for client in [peer.client, client] { client.close() } }
            var stale = entry
            (stale.metadata.lifetime, stale.metadata.etag) = (0, "\"1\"")
            let first = try #require(await peer.lock.begin([key]).first?.leader)
            await peer.lock.finish([(first, stale)])
            let second = try #require(await peer.lock.begin([key]).first?.leader)
            let confirmed = try #require(second.stale)
            try await client.send(["DEL", .string(CacheKeys.entry(key))])
            try await client.send(["CONFIG", "SET", "maxmemory", "1"])
            #expect(await peer.lock.finish([(second, confirmed)]) == [])
            for name in [CacheKeys.entry(key), CacheKeys.flight(key)] {
                #expect(try await client.send(["EXISTS", .string(name)]).int == 0)
            }
        }
    }

    private func bytesReceived(_ client: RedisClient) async throws -> Int {
        InfoReply.number("total_net_input_bytes", in: try await client.send(["INFO", "stats"]).string ?? "")
    }

    @Test func oneWriteIsTriedAfterEachPause() {
        let time = Mutex<Duration>(.zero)
        let records = LogLines()
        let counters = StatisticsRecorder()
        let logger = records.logger()
        let capacity = CacheCapacity(of: "redis://a", logger: logger, statistics: counters) { time.withLock { $0 } }
        func pass(_ duration: Duration) { time.withLock { $0 += duration } }
        #expect(capacity.admitsWrite() && !capacity.isFull)
        #expect(!capacity.noteFailure(RedisError(.timeout, "late")) && !capacity.isFull)
        #expect(capacity.noteFailure(RedisError(reply: "OOM command not allowed")) && capacity.isFull)
        #expect(!capacity.admitsWrite())
        pass(CacheCapacity.pause)
        #expect(!capacity.isFull)
        #expect(capacity.admitsWrite())
        #expect(!capacity.admitsWrite() && capacity.isFull, "the others wait for the result of the one")
        capacity.noteFailure(RedisError(reply: "OOM command not allowed"))
        #expect(!capacity.admitsWrite())
        pass(CacheCapacity.pause)
        #expect(capacity.admitsWrite())
        capacity.noteSuccess()
        #expect(capacity.admitsWrite() && capacity.admitsWrite() && !capacity.isFull)
        let lines = records.all
        #expect(lines.count == 2 && lines[0].contains("maxmemory-policy") && lines[1].contains("again"), "\(lines)")
    }
}
