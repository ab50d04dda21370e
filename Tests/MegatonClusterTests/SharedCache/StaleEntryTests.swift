import Foundation
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// Stale entries of the shared cache, at the level of the lock.
@Suite(.timeLimit(.minutes(2))) struct StaleEntryTests {
    typealias Peer = InFlightLockTests.Peer

    private let key = CacheKey(.original, ["a"])

    private func entry(_ size: Int = 10, whileRevalidating: Double? = nil, ifError: Double? = nil) -> CachedData {
        CachedData(
            data: Data((0..<size).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 >> 8) }),
            metadata: .init(
                etag: "\"e\"",
                lifetime: 0,
                staleWhileRevalidate: whileRevalidating,
                staleIfError: ifError
            )
        )
    }

    private func lead(_ decision: SingleFlight.Decision?) throws -> SingleFlight.Leader {
        guard case .lead(let lead) = decision else { throw JobError("not led: \(String(describing: decision))") }
        return lead
    }

    private func stale(_ decision: SingleFlight.Decision?) throws -> (CachedData, SingleFlight.Leader?) {
        guard case .stale(let entry, let lead) = decision else {
            throw JobError("not stale: \(String(describing: decision))")
        }
        return (entry, lead)
    }

    /// Two peers, and an entry stored by the first.
    private func withPeers(
        _ entry: CachedData,
        _ body: (RedisServerProcess, Peer, Peer) async throws -> Void
    ) async throws {
        try await RedisServerProcess.run { server in
            let peers = (Peer(server.configuration, "one"), Peer(server.configuration, "two"))
            defer { peers.0.client.close() }
            defer { peers.1.client.close() }
            let led = try lead(await peers.0.lock.begin([key]).first)
            await peers.0.lock.finish([(led, entry)])
            try await body(server, peers.0, peers.1)
        }
    }

    @Test(arguments: [0, 10, 5_000_000])
    func aRefreshedEntryKeepsItsBytes(_ size: Int) async throws {
        try await withPeers(entry(size)) { server, one, two in
            let led = try lead(await two.lock.begin([key]).first)
            var again = try #require(led.stale)
            #expect(again.data == entry(size).data && again.metadata.etag == "\"e\"")
            #expect((again.staleness ?? -1) >= 0)
            again.metadata.lifetime = 60
            // Bytes already in Redis are not sent again: a byte that was changed there stays changed.
            let client = server.client()
            defer { client.close() }
            let name = RedisArgument.string(CacheKeys.entry(key))
            if size > 0 { try await client.send(["HSET", name, "0", "changed"]) }
            await two.lock.finish([(led, again)])
            #expect(try await client.send(["HGET", name, "0"]).string == (size > 0 ? "changed" : nil))
            #expect(try await client.send(["HLEN", name]).int == 4 + CacheEntry.chunkCount(size))
            if size > 0 { return }
            guard case .hit(let found) = await one.lock.begin([key]).first else {
                Issue.record("it is not fresh")
                return
            }
            #expect(found.data == again.data)
        }
    }

    /// Redis has evicted it while the origin was asked.
    @Test func anEntryThatIsGoneIsStoredAgain() async throws {
        try await withPeers(entry()) { server, one, two in
            let client = server.client()
            defer { client.close() }
            let led = try lead(await two.lock.begin([key]).first)
            try await client.send(["DEL", .string(CacheKeys.entry(key))])
            await two.lock.finish([(led, led.stale)])
            #expect(try lead(await one.lock.begin([key]).first).stale?.data == entry().data, "the flight has ended")
        }
    }

    @Test func aRefreshOfAnOlderFlightIsRefused() async throws {
        try await withPeers(entry()) { server, one, two in
            let client = server.client()
            defer { client.close() }
            let slow = try lead(await one.lock.begin([key]).first)
            try await client.send(["DEL", .string(CacheKeys.flight(key))])  // Its lease has expired.
            let fast = try lead(await two.lock.begin([key]).first)
            await two.lock.finish([(fast, entry(20))])
            var old = try #require(slow.stale)
            old.metadata.lifetime = 60
            await one.lock.finish([(slow, old)])
            #expect(try lead(await one.lock.begin([key]).first).stale?.data == entry(20).data)
        }
    }

    @Test func waitersAreServedByTheResponseThatArrives() async throws {
        try await withPeers(entry()) { _, one, two in
            let led = try lead(await one.lock.begin([key]).first)
            guard case .wait(let flight) = await two.lock.begin([key]).first else {
                Issue.record("it did not wait")
                return
            }
            await one.lock.finish([(led, led.stale)])
            guard case .hit(let found) = await two.lock.begin([key], after: [flight]).first else {
                Issue.record("it asks once more")
                return
            }
            #expect(found.data == entry().data && found.metadata.lifetime == 0)
            _ = try lead(await two.lock.begin([key]).first)  // A later request has to ask.
        }
    }

    @Test func whileOneRevalidatesTheOthersAreServed() async throws {
        try await withPeers(entry(whileRevalidating: 60)) { _, one, two in
            let (served, led) = try stale(await one.lock.begin([key]).first)
            #expect(served.data == entry().data && led?.stale == served)
            for peer in [two, one] {
                let (again, second) = try stale(await peer.lock.begin([key]).first)
                #expect(again.data == entry().data && second == nil)
            }
            await one.lock.fail([try #require(led)], error: .init(.unreachable, "x"))
            #expect(try stale(await two.lock.begin([key]).first).1 == nil, "it failed a moment ago")
        }
    }

    @Test func anErrorOfTheOriginIsStoodInForAndRemembered() async throws {
        try await withPeers(entry(ifError: 60)) { _, one, two in
            let led = try lead(await one.lock.begin([key]).first)
            let error = ImagePipeline.Error(.httpStatus, "busy", isRetryable: true, status: 503)
            await one.lock.fail([led], error: error)
            let (served, second) = try stale(await two.lock.begin([key]).first)
            #expect(served.data == entry().data && second == nil)
        }
    }

    @Test func aLastWordOfTheOriginRemovesTheEntry() async throws {
        try await withPeers(entry(whileRevalidating: 60, ifError: 60)) { server, one, two in
            let client = server.client()
            defer { client.close() }
            let (_, led) = try stale(await one.lock.begin([key]).first)
            await one.lock.fail([try #require(led)], error: .init(.notFound, "gone"))
            #expect(try await client.send(["EXISTS", .string(CacheKeys.entry(key))]).int == 0)
            guard case .failed(let error) = await two.lock.begin([key]).first else {
                Issue.record("it was not remembered")
                return
            }
            #expect(error.code == .notFound)
        }
    }

    @Test func anEntryThatMustNoLongerBeStoredIsRemoved() async throws {
        try await withPeers(entry(whileRevalidating: 60)) { _, one, two in
            let (_, led) = try stale(await one.lock.begin([key]).first)
            await one.lock.finish([(try #require(led), nil)])
            #expect(try lead(await two.lock.begin([key]).first).stale == nil)
        }
    }

    @Test func anEntryIsKeptForAsLongAsItIsOfUse() async throws {
        let cases: [(CachedData, ClosedRange<Int>)] = [
            (entry(), 691_000_000...691_200_000),
            (entry(ifError: 900_000), 899_000_000...900_000_000),
            (CachedData(data: Data(), metadata: .init(lifetime: 60)), 50_000...60_000),
            (CachedData(data: Data(), metadata: .init(etag: "e", lifetime: 3e7)), 2_591_000_000...2_592_000_000),
        ]
        for (stored, range) in cases {
            try await withPeers(stored) { server, _, _ in
                let client = server.client()
                defer { client.close() }
                let left = try await client.send(["PTTL", .string(CacheKeys.entry(key))]).int ?? 0
                #expect(range.contains(left), "\(left)")
            }
        }
    }
}
