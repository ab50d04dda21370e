import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster
@testable import MegatonPipeline

/// Messages and bytes that the cache Redis gets.
@Suite(.timeLimit(.minutes(2))) struct CacheTrafficTests {
    private typealias Peer = InFlightLockTests.Peer

    private let key = CacheKey(.original, ["a"])

    private func original(_ size: Int = 100_000) -> CachedData {
        var entry = CachedData(data: Data(count: size), metadata: .init(lifetime: 3600))
        entry.isStoredIfReused = true
        return entry
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

    private func lead(_ peer: Peer, _ key: CacheKey? = nil) async throws -> SingleFlight.Leader {
        try #require(await peer.lock.begin([key ?? self.key]).first?.leader)
    }

    // MARK: - Messages

    /// Fault: two messages to every worker for each response that cannot be stored.
    @Test func anUncacheableResponseIsNotPublished() async throws {
        try await withPeers { (client, one, two) async throws in
            // The server learns the scripts.
            await one.lock.finish([(try await lead(one, CacheKey(.original, ["first"])), nil)])
            try await client.send(["CONFIG", "RESETSTAT"])
            await one.lock.finish([(try await lead(one), nil)])
            #expect(try await client.calls("publish") == 0)
            #expect(try await client.calls("evalsha") == 2, "one call to begin and one to finish")
            await one.lock.discard(key)
            await one.lock.fail([try await lead(one)], error: .init(.notFound, "It is gone."))
            #expect(try await client.calls("publish") == 0, "there was no entry")
            let (kept, other) = (CacheKey(.original, ["kept"]), CacheKey(.original, ["other"]))
            for key in [kept, other] {
                await one.lock.finish([
                    (try await lead(one, key), CachedData(data: Data("x".utf8), metadata: .init(lifetime: 60)))
                ])
            }
            await two.lock.discard(kept)
            #expect(try await client.calls("publish") == 1)
            try await client.send(["HSET", .string(CacheKeys.entry(other)), "x", "1", "s", "1"])
            await two.lock.finish([(try await lead(two, other), nil)])
            #expect(try await client.calls("publish") == 2)
        }
    }

    // MARK: - Originals that are stored if they are needed again

    @Test func anOriginalIsStoredTheSecondTime() async throws {
        try await withPeers { (client, one, two) async throws in
            #expect(await one.lock.finish([(try await lead(one), original())]) == [key], "near caches may copy it")
            #expect(try await client.send(["EXISTS", .string(CacheKeys.entry(key))]).int == 0)
            #expect(try await client.send(["EXISTS", .string(CacheKeys.flight(key))]).int == 0)
            await two.lock.finish([(try await lead(two), original())])
            guard case .hit(let found)? = await one.lock.begin([key]).first else {
                Issue.record("the second fetch was not stored")
                return
            }
            #expect(found.data == original().data)
        }
    }

    @Test func anOriginalThatOthersWaitForIsStored() async throws {
        try await withPeers { (client, one, two) async throws in
            let led = try await lead(one)
            guard case .wait? = await two.lock.begin([key]).first else {
                Issue.record("it does not wait")
                return
            }
            await one.lock.finish([(led, original())])
            guard case .hit? = await two.lock.begin([key]).first else {
                Issue.record("the waiter has to fetch it again")
                return
            }
        }
    }

    /// Renditions, and originals that a request is known to need again, are stored at once.
    @Test func otherEntriesAreStoredAtOnce() async throws {
        try await withPeers { (client, one, _) async throws in
            var expected = original()
            expected.isStoredIfReused = false
            await one.lock.finish([(try await lead(one), expected)])
            #expect(try await client.send(["EXISTS", .string(CacheKeys.entry(key))]).int == 1)
            let rendition = CacheKey(.rendition, ["a"])
            await one.lock.finish([(try await lead(one, rendition), original(10))])
            #expect(try await client.send(["EXISTS", .string(CacheKeys.entry(rendition))]).int == 1)
        }
    }

    /// An original whose flight another process leads by now is neither stored nor skipped.
    @Test func aLateLeaderStoresNothing() async throws {
        try await withPeers { (client, one, two) async throws in
            let late = try await lead(one)
            try await client.send(["DEL", .string(CacheKeys.flight(key))])
            let led = try await lead(two)
            #expect(await one.lock.finish([(late, original())]) == [])
            #expect(try await client.send(["HGET", .string(CacheKeys.flight(key)), "o"]).string == "two")
            await two.lock.finish([(led, original())])
        }
    }

    /// The whole pipeline: one list without repeats, and then another size of each source, and a third one.
    @Test func aListWithoutRepeatsStoresItsRenditionsOnly() async throws {
        let image = TestImage.quarters(width: 640, height: 480)
        try await withPeers { (client, one, _) async throws in
            try await OriginServer.run(answer: { _ in
                .image(image, headers: [("Cache-Control", "max-age=3600")])
            }) { (origin) async throws in
                var loader = DataLoader.Configuration()
                loader.addressPolicy.allowsPrivate = true
                let pipeline = ImagePipeline {
                    $0.dataLoader = DataLoader(loader)
                    $0.flights = one.lock
                    $0.dataCachePolicy = .storeReused
                }
                func make(_ width: Int) async throws {
                    for number in 0..<20 {
                        let request = ImageRequest(url: origin.url("/\(number).png"))
                        _ = try await pipeline.renditions([Rendition(width: width)], for: request)
                    }
                    #expect(await pipeline.finishBackgroundWork(within: .seconds(10)) == 0)
                }
                let start = try await bytesReceived(client)
                try await make(32)
                let bytes = (try await bytesReceived(client) - start) / 20
                #expect(bytes < 25_000, "\(bytes) bytes for each source of \(image.count) bytes")
                #expect(try await client.send(["KEYS", "megaton:o:*"]).array?.isEmpty == true)
                #expect(origin.total == 20)
                try await make(48)
                #expect(origin.total == 40)
                try await make(64)
                #expect(origin.total == 40, "at most two requests for a source")
            }
        }
    }

    /// A job that fetches for the jobs that follow, or whose source others name.
    @Test func anOriginalThatIsKnownToBeReusedIsFetchedOnce() async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        try await withPeers { (_, one, _) async throws in
            try await OriginServer.run(answer: { _ in
                .image(image, headers: [("Cache-Control", "max-age=3600")])
            }) { (origin) async throws in
                var loader = DataLoader.Configuration()
                loader.addressPolicy.allowsPrivate = true
                let pipeline = ImagePipeline {
                    $0.dataLoader = DataLoader(loader)
                    $0.flights = one.lock
                    $0.dataCachePolicy = .storeReused
                }
                var request = ImageRequest(url: origin.url("/a.png"))
                request.expectsReuse = true
                for width in [16, 32, 48] {
                    _ = try await pipeline.renditions([Rendition(width: width)], for: request)
                }
                var other = ImageRequest(url: origin.url("/b.png"))
                other.expectsReuse = true
                try await pipeline.prefetch(other)
                _ = try await pipeline.renditions([Rendition(width: 16)], for: other)
                #expect(origin.total == 2)
            }
        }
    }

    private func bytesReceived(_ client: RedisClient) async throws -> Int {
        InfoReply.number("total_net_input_bytes", in: try await client.send(["INFO", "stats"]).string ?? "")
    }

    // MARK: - Flights

    /// Fault: a flight that ended while its lease was being renewed counted as lost.
    @Test func anEndedFlightIsNotALostOne() {
        let leads = (0..<4).map { SingleFlight.Leader(key: CacheKey(.original, ["\($0)"]), token: $0 + 1) }
        var flights = LedFlights()
        flights.add(leads)
        flights.markEnding(leads[1])
        flights.remove(leads[2])
        flights.markEnding(leads[2])
        #expect(flights.removeRefused([leads[0], leads[1], leads[2]]) == 1, "only the first was lost")
        #expect(Set(flights.all) == [leads[1], leads[3]])
        #expect(flights.removeRefused([leads[0]]) == 0, "it is counted once")
        flights.remove(leads[1])
        flights.remove(leads[3])
        #expect(flights.all.isEmpty)
    }

    @Test func aLeaderThatEndsLeavesNoFlight() async throws {
        try await withPeers { (client, one, two) async throws in
            _ = try await lead(one)
            await one.lock.abandonLeads()
            #expect(try await lead(two).token != nil)
        }
    }
}
