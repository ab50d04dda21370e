import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster

/// An older result never overwrites a newer one: neither in the shared cache nor in an output.
@Suite(.timeLimit(.minutes(2))) struct EntryVersionTests {
    private let key = CacheKey(.rendition, ["versions"])

    private func entry(_ byte: UInt8, fetched: Double?, lifetime: Double = 60) -> CachedData {
        var metadata = CachedData.Metadata(type: "image/png", etag: "\"e\"", width: 1, height: 1, lifetime: lifetime)
        metadata.fetched = fetched
        return CachedData(data: Data([byte]), metadata: metadata)
    }

    private func lead(_ decision: SingleFlight.Decision?) throws -> SingleFlight.Leader {
        guard case .lead(let lead) = decision else { throw JobError("not led: \(String(describing: decision))") }
        return lead
    }

    private func withPeers(
        _ body: (InFlightLockTests.Peer, InFlightLockTests.Peer, RedisClient) async throws -> Void
    ) async throws {
        try await RedisServerProcess.run { server in
            let one = InFlightLockTests.Peer(server.configuration, "one")
            let two = InFlightLockTests.Peer(server.configuration, "two")
            let client = server.client()
            defer { for client in [one.client, two.client, client] { client.close() } }
            try await body(one, two, client)
        }
    }

    private func present(_ lock: InFlightLock) async -> UInt8? {
        await lock.lookUpStale([key]).first??.data.first
    }

    @Test func theResultOfTheLaterRequestStays() async throws {
        try await withPeers { one, two, _ in
            #expect(await one.lock.replace(entry(2, fetched: 200), for: key))
            #expect(await !two.lock.replace(entry(1, fetched: 100), for: key))
            #expect(await present(two.lock) == 2)
            #expect(await two.lock.replace(entry(3, fetched: 300), for: key))
            #expect(await present(one.lock) == 3)
        }
    }

    /// Copies in near caches of other processes must not outlive the entry.
    @Test func theReplacementOfAnEntryIsPublished() async throws {
        try await withPeers { (one, two, client) async throws in
            #expect(await one.lock.replace(entry(1, fetched: 100), for: key))
            #expect(try await client.calls("publish") == 0, "there was no entry")
            #expect(await two.lock.replace(entry(2, fetched: 200), for: key))
            #expect(try await client.calls("publish") == 1)
        }
    }

    /// While the reply to a takeover is on its way, a lookup of the same process must not lead too. After it has been
    /// lost, one may.
    @Test func aLookupBesideATakeoverWaits() async throws {
        try await withPeers { (one, _, client) async throws in
            _ = try lead(await one.lock.begin([key]).first)
            let taken = try await client.run(
                FlightScripts.takeOverFlight,
                keys: [CacheKeys.entry(key), CacheKeys.flight(key)],
                arguments: ["two", "60000", "200", "7"]
            )
            #expect(taken.array?.first?.string == "lead")
            func lookUp(oldest: RedisArgument, number: RedisArgument) async throws -> String? {
                let reply = try await client.run(
                    FlightScripts.beginFlight,
                    keys: [CacheKeys.entry(key), CacheKeys.flight(key), CacheKeys.negative(key)],
                    arguments: ["two", "60000", "0", oldest, "-1", "", number]
                )
                return reply.array?.first?.string
            }
            #expect(try await lookUp(oldest: "7", number: "8") == "wait")
            #expect(try await lookUp(oldest: "9", number: "9") == "lead")
        }
    }

    /// The flight of a job that began with older bytes is taken over, and its waiters get the newer ones.
    @Test func aFlightThatBeganEarlierIsRefused() async throws {
        try await withPeers { one, two, client in
            let early = try lead(await one.lock.begin([key]).first)
            #expect(await two.lock.replace(entry(2, fetched: 200), for: key))
            #expect(await one.lock.finish([(early, entry(1, fetched: 100))]).isEmpty)
            #expect(await present(one.lock) == 2)
            #expect(try await client.send(["EXISTS", .string(CacheKeys.flight(key))]).int == 0)
        }
    }

    @Test func aSupersededEntryIsGoneAndResultsOfEarlierFlightsAreRefused() async throws {
        try await withPeers { one, two, client in
            await one.lock.finish([(try lead(await one.lock.begin([key]).first), entry(1, fetched: 100, lifetime: 0))])
            let early = try lead(await one.lock.begin([key]).first)
            #expect(await two.lock.supersede([key], at: 200) == 1)
            #expect(await present(two.lock) == nil)
            #expect(await one.lock.finish([(early, entry(1, fetched: 100))]).isEmpty)
            #expect(await present(two.lock) == nil)
            #expect(
                try await client.send(["EXISTS", .string(CacheKeys.flight(key))]).int == 0,
                "no waiter is left alone"
            )
            // The next request makes it again, with the usual flight.
            await two.lock.finish([(try lead(await two.lock.begin([key]).first), entry(3, fetched: 300))])
            #expect(await present(one.lock) == 3)
            #expect(await one.lock.supersede([key], at: 250) == 0, "it is newer")
            #expect(await present(one.lock) == 3)
        }
    }

    /// The mark of a superseded entry is no answer for those who waited for its flight either.
    @Test func aWaiterOfASupersededFlightLeads() async throws {
        try await withPeers { one, two, _ in
            let early = try lead(await one.lock.begin([key]).first)
            guard case .wait(let waiter)? = await two.lock.begin([key]).first else {
                Issue.record("the second caller does not wait")
                return
            }
            await two.lock.supersede([key])
            await one.lock.finish([(early, entry(1, fetched: 100))])
            #expect(try lead(await two.lock.begin([key], after: [waiter]).first).token != nil)
        }
    }

    @Test func onlyWhatDiffersIsSuperseded() async throws {
        try await withPeers { one, two, _ in
            let original = CacheKey(.original, ["versions"])
            var stored = entry(9, fetched: 100)
            stored.metadata.etag = "\"1\""
            await one.lock.finish([(try lead(await one.lock.begin([original]).first), stored)])
            await one.lock.finish([(try lead(await one.lock.begin([key]).first), entry(1, fetched: 100))])
            var metadata = CachedData.Metadata(etag: "\"1\"", lifetime: 0)
            metadata.fetched = 200
            let same = [(key: key, sha256: Checksum.sha256(Data([1])))]
            await two.lock.supersede(original, same, by: OriginalVersion(metadata))
            #expect(await two.lock.lookUp([original, key]).allSatisfy { $0 != nil })
            metadata.etag = "\"2\""
            let other = [(key: key, sha256: Checksum.sha256(Data([2])))]
            await two.lock.supersede(original, other, by: OriginalVersion(metadata))
            #expect(await two.lock.lookUp([original, key]).allSatisfy { $0 == nil })
        }
    }

    /// A job that fetched before another refreshed the rendition, and ends after it.
    @Test func aJobThatBeganEarlierDeliversTheNewerResult() async throws {
        let site = RevalidationTests.Site("max-age=60")
        try await OriginServer.run(responding: { site.answer($0) }) { (origin) async throws in
            try await RedisServerProcess.run { (server) async throws in
                let one = try RevalidationTests.Peer(server.configuration, "one")
                let two = InFlightLockTests.Peer(server.configuration, "two")
                defer { for client in [one.client, two.client] { client.close() } }
                origin.hold()
                async let early = one.ask(origin)
                await origin.waitForRequests("/a", count: 1)
                let original = CacheKey.original(of: ImageRequest(url: origin.url("/a")))
                let newer = entry(7, fetched: Date().timeIntervalSince1970)
                let key = original.rendition(Rendition(width: 32, format: .png))
                #expect(await two.lock.replace(newer, for: key))
                origin.release()
                let response = try await early
                #expect(response.data == newer.data && response.source == .cache)
                #expect(await two.lock.lookUp([key]).first??.data == newer.data)
            }
        }
    }
}
