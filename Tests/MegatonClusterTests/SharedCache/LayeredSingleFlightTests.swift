import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCluster
@testable import MegatonCore
@testable import MegatonPipeline

/// Near caches of processes in front of Redis: the lock still works, and Redis is authoritative.
@Suite(.timeLimit(.minutes(2))) struct LayeredSingleFlightTests {
    private typealias Peer = InFlightLockTests.Peer

    private let key = CacheKey(.rendition, ["a"])
    private let entry = CachedData(data: Data("one".utf8), metadata: .init(lifetime: 3600))

    /// The lead, if there is neither a hit nor a wait.
    private func lead(_ flights: some SingleFlightCoordinating) async -> SingleFlight.Leader? {
        if case .lead(let lead)? = await flights.begin([key]).first { lead } else { nil }
    }

    private func hit(_ flights: some SingleFlightCoordinating) async -> Data? {
        if case .hit(let entry)? = await flights.begin([key]).first { entry.data } else { nil }
    }

    private func withPeers(_ body: (RedisClient, Peer, Peer) async throws -> Void) async throws {
        try await RedisServerProcess.run { server in
            let (client, peers) = (
                server.client(), (Peer(server.configuration, "one"), Peer(server.configuration, "two"))
            )
            defer { for client in [client, peers.0.client, peers.1.client] { client.close() } }
            try await body(client, peers.0, peers.1)
        }
    }

    @Test(arguments: ["discarded", "uncacheable", "gone"])
    func anEntryDeletedByAnotherProcessIsDeletedHere(how: String) async throws {
        try await withPeers { client, one, two in
            let (heard, continuation) = AsyncStream.makeStream(of: String?.self)
            let flights = LayeredSingleFlight(MemoryDataCache(), over: one.lock, ttl: .seconds(3600))
            let observation = one.lock.observeDeletions { continuation.yield($0) }
            defer { observation.cancel() }
            let running = Task { await one.lock.run() }  // Cancelled below.
            var messages = heard.makeAsyncIterator()
            #expect(await messages.next() == .some(nil), "it listens")
            await flights.finish([(try #require(await lead(flights)), entry)])
            #expect(await hit(flights) == entry.data)
            // A change without a notification: only the near-cache copy can answer, and the other process leads.
            try await client.send(["HSET", .string(CacheKeys.entry(key)), "x", "1", "s", "1"])
            #expect(await hit(flights) == entry.data)
            let led = try #require(await lead(two.lock))
            switch how {
            case "discarded": await two.lock.discard(key)
            case "uncacheable": await two.lock.finish([(led, nil)])
            default: await two.lock.fail([led], error: .init(.notFound, "It is gone."))
            }
            #expect(await messages.next() == key.description)
            #expect(await hit(flights) == nil)
            running.cancel()
            await running.value
        }
    }

    /// The limit of what a deletion can miss: an entry that was evicted is deleted without a message, and a copy of it
    /// is served until its time to live is over.
    @Test func aCopyOfAnEvictedEntryLastsNoLongerThanItsTimeToLive() async throws {
        try await withPeers { client, one, two in
            let clock = SteppedDate()
            let flights = LayeredSingleFlight(
                MemoryDataCache(),
                over: one.lock,
                ttl: .seconds(60),
                time: TimeSource(ContinuousClock(), date: { clock.nanoseconds })
            )
            await flights.finish([(try #require(await lead(flights)), entry)])
            try await client.send(["DEL", .string(CacheKeys.entry(key))])
            await two.lock.discard(key)
            #expect(try await client.calls("publish") == 0)
            clock.advance(by: 59)
            #expect(await hit(flights) == entry.data)
            clock.advance(by: 2)
            #expect(await hit(flights) == nil)
        }
    }

    /// A copy whose time to live is over is confirmed without its bytes, and replaced if they have changed.
    @Test func aConfirmedCopyIsNotSentAgain() async throws {
        try await withPeers { client, one, two in
            let clock = SteppedDate()
            let flights = LayeredSingleFlight(
                MemoryDataCache(),
                over: one.lock,
                ttl: .seconds(60),
                time: TimeSource(ContinuousClock(), date: { clock.nanoseconds })
            )
            let large = CachedData(data: Data(count: 200_000), metadata: .init(etag: "\"a\"", lifetime: 3600))
            await flights.finish([(try #require(await lead(flights)), large)])
            clock.advance(by: 61)
            let before = try await bytesSent(client)
            #expect(await hit(flights) == large.data)
            #expect(try await bytesSent(client) - before < 20_000)
            try await client.send(["DEL", .string(CacheKeys.entry(key))])
            #expect(await hit(flights) == large.data, "it was confirmed a moment ago")
            let other = CachedData(data: Data(count: 100_000), metadata: .init(lifetime: 3600))
            await two.lock.store(other, for: key)
            clock.advance(by: 61)
            #expect(await hit(flights) == other.data)
        }
    }

    private func bytesSent(_ client: RedisClient) async throws -> Int {
        InfoReply.number("total_net_output_bytes", in: try await client.send(["INFO", "stats"]).string ?? "")
    }

    /// A worker without a near cache hears of no deletions.
    @Test func onlyObserversSubscribeToDeletions() async throws {
        try await withPeers { client, one, two in
            let (heard, continuation) = AsyncStream.makeStream(of: String?.self)
            let running = [one, two].map { peer in Task { await peer.lock.run() } }  // Cancelled below.
            let observation = one.lock.observeDeletions { continuation.yield($0) }
            var messages = heard.makeAsyncIterator()
            #expect(await messages.next() == .some(nil))
            #expect(try await client.send(["PUBSUB", "NUMSUB", "megaton:deleted"]).array?.last?.int == 1)
            observation.cancel()
            observation.cancel()
            while try await client.send(["PUBSUB", "CHANNELS"]).array?.isEmpty == false { await Task.yield() }
            for task in running {
                task.cancel()
                await task.value
            }
        }
    }

    @Test func anEntryThatRedisRefusesIsNotStoredHere() async throws {
        try await withPeers { client, one, two in
            let flights = LayeredSingleFlight(MemoryDataCache(), over: one.lock)
            let slow = try #require(await lead(flights))
            try await client.send(["DEL", .string(CacheKeys.flight(key))])  // Its lease has expired.
            let fast = try #require(await lead(two.lock))
            let newer = CachedData(data: Data("two".utf8), metadata: .init(lifetime: 3600))
            #expect(await two.lock.finish([(fast, newer)]) == [key])
            #expect(await flights.finish([(slow, entry)]) == [])
            #expect(await hit(flights) == newer.data)
        }
    }

    /// An entry that is replaced outside of a flight, by a reload, is replaced in all layers.
    @Test func aReplacedEntryIsReplacedInAllLayers() async throws {
        try await withPeers { client, one, two in
            let flights = LayeredSingleFlight(MemoryDataCache(), over: one.lock)
            await flights.finish([(try #require(await lead(flights)), entry)])
            let newer = CachedData(data: Data("two".utf8), metadata: .init(lifetime: 3600))
            #expect(await flights.replace(newer, for: key))
            #expect(await hit(flights) == newer.data)
            #expect(await hit(two.lock) == newer.data)
        }
    }

    @Test func aNewEntryIsInAllLayers() async throws {
        let directory = try TestDirectory()
        let disk = try DataCache(path: URL(fileURLWithPath: directory.path))
        try await withPeers { client, one, _ in
            let lock = one.lock
            let pipeline = ImagePipeline {
                $0.flights = lock
                $0.dataCache = LayeredDataCache([MemoryDataCache(), disk])
            }
            let picture = TestImage.quarters(width: 64, height: 64).base64EncodedString()
            let url = try #require(URL(string: "data:image/png;base64,\(picture)"))
            let wanted = [Rendition(width: 32)]
            #expect(try await pipeline.renditions(wanted, for: .init(url: url)).first?.source == .render)
            await disk.flush()
            #expect(await disk.totalCount == 1)
            #expect(try await client.send(["DBSIZE"]).int == 1)
            try await client.send(["FLUSHALL"])
            #expect(try await pipeline.renditions(wanted, for: .init(url: url)).first?.source == .cache)
        }
        await disk.flush()
    }

    /// Pipelines with near caches still share one fetch, whichever is configured first.
    @Test(arguments: [true, false]) func theLockIsStillAtWork(cacheFirst: Bool) async throws {
        try await withPeers { client, one, two in
            let image = TestImage.quarters(width: 64, height: 64, seed: 1)
            try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
                let memories = [MemoryDataCache(), MemoryDataCache()]
                let pipelines = zip([one, two], memories).map { peer, memory in
                    var loader = DataLoader.Configuration()
                    loader.addressPolicy.allowsPrivate = true
                    return ImagePipeline {
                        $0.dataLoader = DataLoader(loader)
                        if cacheFirst { $0.dataCache = memory }
                        $0.flights = peer.lock
                        if !cacheFirst { $0.dataCache = memory }
                    }
                }
                let wanted = [Rendition(width: 32)]
                for _ in 0..<2 {
                    for pipeline in pipelines {
                        let made = try await pipeline.renditions(wanted, for: .init(url: origin.url("/a")))
                        #expect(made.count == 1)
                    }
                    // Neither pipeline needs Redis for entries in its near cache.
                    try await client.send(["FLUSHALL"])
                }
                #expect(origin.total == 1)
                #expect(memories.allSatisfy { $0.totalCount > 0 })
            }
        }
    }
}

/// A date that a test sets.
private final class SteppedDate: Sendable {
    private let value = Mutex<Int64>(1_700_000_000_000_000_000)

    var nanoseconds: Int64 { value.withLock { $0 } }

    func advance(by seconds: Int64) { value.withLock { $0 += seconds * 1_000_000_000 } }
}
