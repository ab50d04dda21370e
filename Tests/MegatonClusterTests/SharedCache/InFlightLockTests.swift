import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Synchronization
import Testing

@testable import MegatonCluster

@Suite(.timeLimit(.minutes(2))) struct InFlightLockTests {
    /// One process' view of the shared cache.
    struct Peer: Sendable {
        let client: RedisClient
        let lock: InFlightLock
        let statistics = StatisticsRecorder()

        init(_ server: RedisConfiguration, _ name: String, lease: Duration = .seconds(10)) {
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let group = MultiThreadedEventLoopGroup.singleton
            client = RedisClient(server, role: name, group: group, logger: logger)
            lock = InFlightLock(
                cache: RedisDataCache(redis: client, logger: logger),
                owner: name,
                lease: lease,
                group: group,
                logger: logger
            )
        }
    }

    private let key = CacheKey(.rendition, ["a"])

    private func entry(_ size: Int, lifetime: Double = 60) -> CachedData {
        CachedData(
            data: Data((0..<size).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 >> 8) }),
            metadata: .init(type: "image/jpeg", etag: "\"e\"", width: 3, height: 4, lifetime: lifetime)
        )
    }

    private func lead(_ decision: SingleFlight.Decision?) throws -> SingleFlight.Leader {
        guard case .lead(let lead) = decision else { throw JobError("not led: \(String(describing: decision))") }
        return lead
    }

    private func hit(_ decision: SingleFlight.Decision?) throws -> CachedData {
        guard case .hit(let entry) = decision else { throw JobError("no hit: \(String(describing: decision))") }
        return entry
    }

    private func wait(_ decision: SingleFlight.Decision?) throws -> SingleFlight.Waiter {
        guard case .wait(let wait) = decision else { throw JobError("no wait: \(String(describing: decision))") }
        return wait
    }

    private func withPeers(_ body: (RedisServerProcess, Peer, Peer) async throws -> Void) async throws {
        try await RedisServerProcess.run { server in
            let peers = (Peer(server.configuration, "one"), Peer(server.configuration, "two"))
            defer { peers.0.client.close() }
            defer { peers.1.client.close() }
            try await body(server, peers.0, peers.1)
        }
    }

    /// Each message goes to all workers, and most flights have no waiters.
    @Test func anEndIsPublishedOnlyIfThereAreWaiters() async throws {
        try await withPeers { (server, one, two) async throws in
            let client = server.client()
            defer { client.close() }
            await one.lock.finish([(try lead(await one.lock.begin([key]).first), entry(1000))])
            let other = CacheKey(.rendition, ["b"])
            await one.lock.fail([try lead(await one.lock.begin([other]).first)], error: .init(.cancelled, "…"))
            #expect(try await client.calls("publish") == 0)
            let third = CacheKey(.rendition, ["c"])
            let led = try lead(await one.lock.begin([third]).first)
            _ = try wait(await two.lock.begin([third]).first)
            await one.lock.finish([(led, entry(1000))])
            #expect(try await client.calls("publish") == 1)
            let fourth = CacheKey(.rendition, ["d"])
            let late = try lead(await one.lock.begin([fourth]).first)
            try await client.send(["DEL", .string(CacheKeys.flight(fourth))])
            await one.lock.finish([(late, entry(1000))])
            #expect(try await client.calls("publish") == 2, "the waiters of a flight that is gone are not known")
        }
    }

    @Test func oneLeadsTheOtherWaitsAndThenFindsTheEntry() async throws {
        try await withPeers { server, one, two in
            let running = Task { await two.lock.run() }  // Cancelled below.
            let client = server.client()
            defer { client.close() }
            let led = try lead(await one.lock.begin([key]).first)
            let waiting = try wait(await two.lock.begin([key]).first)
            #expect(try await client.send(["PUBSUB", "CHANNELS"]).array?.isEmpty == true, "no waiter yet")
            async let woken: Void = two.lock.wait(for: waiting)
            try await server.waitForSubscriber(client)
            await one.lock.finish([(led, entry(1000))])
            await woken
            let found = try hit(await two.lock.begin([key]).first)
            #expect(found.data == entry(1000).data)
            #expect(found.metadata.width == 3 && found.metadata.etag == "\"e\"")
            #expect(found.checksum == Checksum.sha256(found.data))
            while try await client.send(["PUBSUB", "CHANNELS"]).array?.isEmpty == false { await Task.yield() }
            running.cancel()
            await running.value
        }
    }

    /// A flight may end before the subscription to its channel is active, and is not announced again then.
    @Test func aLandingBeforeTheWaitIsNoticed() async throws {
        try await withPeers { (_, one, two) async throws in
            let running = Task { await two.lock.run() }  // Cancelled below.
            let led = try lead(await one.lock.begin([key]).first)
            let waiting = try wait(await two.lock.begin([key]).first)
            await one.lock.finish([(led, entry(1000))])
            let start = ContinuousClock.now
            await two.lock.wait(for: waiting)
            #expect(start.duration(to: .now) < .seconds(1), "otherwise it looks again after two seconds")
            _ = try hit(await two.lock.begin([key]).first)
            running.cancel()
            await running.value
        }
    }

    /// The lookup of a partial download goes with the lookup of the entry.
    @Test func aLeaderLearnsWhetherADownloadWasInterrupted() async throws {
        try await withPeers { (_, one, _) async throws in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let cache = RedisDataCache(redis: one.client, logger: logger)
            let lock = InFlightLock(
                cache: cache,
                owner: "three",
                lease: .seconds(10),
                negatives: NegativePolicy(),
                group: MultiThreadedEventLoopGroup.singleton,
                logger: logger,
                statistics: nil,
                history: nil,
                keepsPartials: true
            )
            let (left, other) = (CacheKey(.original, ["a"]), CacheKey(.original, ["b"]))
            await cache.forPartials().storeData(Data("begun".utf8), for: CacheKey.partial(of: left).description)
            let decisions = await lock.begin([key, left, other])
            #expect(try decisions.map { try lead($0).hasPartial } == [nil, true, false])
            #expect(try lead(await one.lock.begin([CacheKey(.original, ["c"])]).first).hasPartial == nil)
        }
    }

    @Test func manyKeysAreDecidedInOneLook() async throws {
        try await withPeers { _, one, two in
            let keys = (0..<5).map { CacheKey(.rendition, ["\($0)"]) }
            let leads = try await one.lock.begin(Array(keys[0..<3])).map { try lead($0) }
            await one.lock.finish([(leads[0], entry(10))])
            let decisions = await two.lock.begin(keys)
            #expect(try hit(decisions[0]).data.count == 10)
            _ = try (wait(decisions[1]), wait(decisions[2]), lead(decisions[3]), lead(decisions[4]))
        }
    }

    /// Fault: two lookups of one process, sent before either reply, took the flight from each other, and both fetched.
    @Test func ofOverlappingLookupsOfOneProcessOneLeads() async throws {
        try await withPeers { _, one, _ in
            let key = key
            let decisions = await withTaskGroup(of: SingleFlight.Decision?.self) { group in
                for _ in 0..<16 { group.addTask { await one.lock.begin([key]).first } }
                return await group.reduce(into: [SingleFlight.Decision?]()) { $0.append($1) }
            }
            let leads = decisions.compactMap { $0?.leader }
            #expect(leads.count == 1 && decisions.count == 16)
            let led = try #require(leads.first)
            #expect(await one.lock.finish([(led, entry(1))]) == [key])
        }
    }

    /// The reply to a lookup may be lost: the next one takes the flight over instead of waiting for its lease.
    @Test func aFlightThatItsProcessDoesNotKnowIsTakenOver() throws {
        var flights = LedFlights()
        let first = flights.beginLookup([key, key])
        #expect(first.oldest == [key: first.number])
        let second = flights.beginLookup([key])
        #expect(second.number > first.number && second.oldest == [key: first.number], "the first may lead by now")
        flights.endLookup(first)
        flights.endLookup(second)
        let third = flights.beginLookup([key])
        #expect(third.oldest == [key: third.number], "nothing that has begun before is known")
        let leader = SingleFlight.Leader(key: key, token: 1)
        flights.add([leader, leader])
        flights.endLookup(third)
        let fourth = flights.beginLookup([key])
        #expect(fourth.oldest == [key: 0], "it leads")
        flights.endLookup(fourth)
        flights.remove(leader)
        flights.remove(leader)
        let fifth = flights.beginLookup([key])
        #expect(fifth.oldest == [key: fifth.number])
    }

    @Test(arguments: [0, 1, 262_080, 262_081, 1_048_320, 1_048_321, 5_000_000])
    func entriesOfAllSizesSurvive(_ size: Int) async throws {
        try await withPeers { _, one, two in
            let led = try lead(await one.lock.begin([key]).first)
            await one.lock.finish([(led, entry(size))])
            #expect(try hit(await two.lock.begin([key]).first).data == entry(size).data)
        }
    }

    @Test func aWriteOfAnOlderFlightIsRefused() async throws {
        try await withPeers { server, one, two in
            let client = server.client()
            defer { client.close() }
            let slow = try lead(await one.lock.begin([key]).first)
            try await client.send(["DEL", .string(CacheKeys.flight(key))])  // Its lease has expired.
            let fast = try lead(await two.lock.begin([key]).first)
            #expect((fast.token ?? 0) > (slow.token ?? 0))
            await one.lock.finish([(slow, entry(1))])
            #expect(try await client.send(["EXISTS", .string(CacheKeys.entry(key))]).int == 0)
            await two.lock.finish([(fast, entry(2))])
            await one.lock.finish([(slow, entry(1))])
            await one.lock.fail([slow], error: .init(.notFound, "late"))
            #expect(try hit(await one.lock.begin([key]).first).data.count == 2)
        }
    }

    @Test func tokensGrowAlsoAfterAnEntryHasExpired() async throws {
        try await withPeers { server, one, _ in
            let client = server.client()
            defer { client.close() }
            let first = try lead(await one.lock.begin([key]).first)
            await one.lock.finish([(first, entry(1))])
            try await client.send(["HSET", .string(CacheKeys.entry(key)), "x", "1", "t", "9007199254740000"])
            let second = try lead(await one.lock.begin([key]).first)
            #expect(second.token == 9_007_199_254_740_001)
        }
    }

    @Test func aDeadLeadersFlightGoesToExactlyOne() async throws {
        try await RedisServerProcess.run { server in
            let dead = Peer(server.configuration, "dead", lease: .milliseconds(100))
            _ = try lead(await dead.lock.begin([key]).first)  // It never reports back.
            dead.client.close()
            let peers = (0..<8).map { Peer(server.configuration, "peer\($0)") }
            defer { for peer in peers { peer.client.close() } }
            let leads = try await withThrowingTaskGroup(of: Int.self) { group in
                for peer in peers {
                    group.addTask {
                        // `wait` returns once the lease has expired, so no clock is needed here.
                        guard case .wait(let flight) = await peer.lock.begin([key]).first else { return 1 }
                        await peer.lock.wait(for: flight)
                        if case .lead = await peer.lock.begin([key]).first { return 1 }
                        return 0
                    }
                }
                return try await group.reduce(0, +)
            }
            #expect(leads == 1)
        }
    }

    @Test func aFailureAnswersLaterRequests() async throws {
        try await withPeers { server, one, two in
            let led = try lead(await one.lock.begin([key]).first)
            await one.lock.fail([led], error: .init(.notFound, "no such image"))
            guard case .failed(let error) = await two.lock.begin([key]).first else {
                Issue.record("it was not remembered")
                return
            }
            #expect(error.code == .notFound && error.message.hasPrefix("no such image (remembered for another "))
            #expect((50...70).contains(error.retryAfter ?? 0))
            let client = server.client()
            defer { client.close() }
            try await client.send(["DEL", .string(CacheKeys.negative(key))])
            let again = try lead(await two.lock.begin([key]).first)
            await two.lock.fail([again], error: .init(.cancelled, "never mind"))
            _ = try lead(await one.lock.begin([key]).first)
        }
    }

    /// Fault: a leader that had hung replaced the 404 of its successor with the image from before.
    @Test func aLateLeaderDoesNotReplaceTheFailureOfItsSuccessor() async throws {
        try await withPeers { server, one, two in
            let client = server.client()
            defer { client.close() }
            let late = try lead(await one.lock.begin([key]).first)
            // Its lease runs out.
            try await client.send(["DEL", .string(CacheKeys.flight(key))])
            let next = try lead(await two.lock.begin([key]).first)
            await two.lock.fail([next], error: .init(.notFound, "It is gone."))
            #expect(await one.lock.finish([(late, entry(1000))]).isEmpty)
            guard case .failed(let error) = await one.lock.begin([key]).first else {
                Issue.record("the failure is forgotten")
                return
            }
            #expect(error.code == .notFound)
        }
    }

    /// Fault: a held job whose host took it earlier than expected met its own refusal, and waited as long again.
    @Test func aRefusalByTheLimitsOfAHostAnswersOnlyTheWaiters() async throws {
        try await withPeers { _, one, two in
            var refused = ImagePipeline.Error(.throttled, "the host has no place", isRetryable: true, retryAfter: 10)
            refused.hostTurn = HostTurn(host: "a.example:443", wait: 10, interval: 0)
            let led = try lead(await one.lock.begin([key]).first)
            guard case .wait(let flight) = await two.lock.begin([key]).first else {
                Issue.record("it did not wait")
                return
            }
            await one.lock.fail([led], error: refused)
            guard case .failed(let error) = await two.lock.begin([key], after: [flight]).first else {
                Issue.record("the waiter has no failure")
                return
            }
            #expect(error.code == .throttled && error.hostTurn?.wait == 10)
            _ = try lead(await two.lock.begin([key]).first)
        }
    }

    /// Fault: a reload that its host had no place for cleared the Retry-After that another job had received meanwhile.
    @Test func aRefusalByTheLimitsOfAHostClearsNoFailure() async throws {
        try await withPeers { _, one, two in
            let original = CacheKey(.original, ["a"])
            var busy = ImagePipeline.Error(.httpStatus, "busy", isRetryable: true, retryAfter: 60, status: 503)
            busy.requestedDelay = 60
            await one.lock.remember(busy, for: original)
            let refused = ImagePipeline.Error(.throttled, "the host has no place", isRetryable: true, retryAfter: 10)
            await two.lock.remember(refused, for: original)
            #expect(await one.lock.bindingFailure(for: original)?.status == 503)
            await two.lock.remember(nil, for: original)
            #expect(await one.lock.bindingFailure(for: original) == nil)
        }
    }

    /// Fault: the end of a flight removed, or replaced, the Retry-After that a forced job had received meanwhile.
    @Test(arguments: [.cancelled, .throttled, .notFound] as [ImagePipeline.Error.Code])
    func theEndOfAFlightClearsNoRetryAfter(_ code: ImagePipeline.Error.Code) async throws {
        try await withPeers { _, one, two in
            let original = CacheKey(.original, ["a"])
            var busy = ImagePipeline.Error(.httpStatus, "busy", isRetryable: true, retryAfter: 60, status: 503)
            busy.requestedDelay = 60
            let led = try lead(await one.lock.begin([original]).first)
            let waiting = try wait(await two.lock.begin([original]).first)
            await two.lock.remember(busy, for: original)
            await one.lock.fail([led], error: .init(code, "the flight has failed"))
            #expect(await one.lock.bindingFailure(for: original)?.status == 503)
            guard case .failed(let error) = await two.lock.begin([original], after: [waiting]).first else {
                Issue.record("the waiter has no failure")
                return
            }
            #expect(error.status == 503)
            await one.lock.remember(.init(code, "a forced job has failed"), for: original)
            #expect(await one.lock.bindingFailure(for: original)?.status == 503)
            // A later answer of the same kind counts.
            busy.status = 429
            await one.lock.remember(busy, for: original)
            #expect(await one.lock.bindingFailure(for: original)?.status == 429)
        }
    }

    @Test func aDamagedEntryIsAMissAndGoes() async throws {
        try await withPeers { server, one, two in
            let client = server.client()
            defer { client.close() }
            let led = try lead(await one.lock.begin([key]).first)
            await one.lock.finish([(led, entry(1000))])
            try await client.send(["HSET", .string(CacheKeys.entry(key)), "0", "torn"])
            _ = try lead(await two.lock.begin([key]).first)
            #expect(try await client.send(["EXISTS", .string(CacheKeys.entry(key))]).int == 0)
        }
    }

    @Test func aRunningFlightIsRenewed() async throws {
        try await withPeers { server, one, _ in
            let led = try lead(await one.lock.begin([key]).first)
            let name = CacheKeys.flight(key)
            let client = server.client()
            defer { client.close() }
            // Its lease is nearly over; only a renewal makes it long again.
            try await client.send(["PEXPIRE", .string(name), "5000"])
            await one.lock.renewLeads()
            #expect(try await client.send(["PTTL", .string(name)]).int ?? 0 > 5000)
            await one.lock.finish([(led, entry(1))])
            #expect(try await client.send(["EXISTS", .string(name)]).int == 0)
            await one.lock.renewLeads()
            #expect(try await client.send(["EXISTS", .string(name)]).int == 0, "what has landed is not renewed")
        }
    }

    @Test func withoutRedisEverybodyLeads() async throws {
        var configuration = RedisConfiguration(address: .unix(path: "/nowhere.sock"))
        configuration.commandTimeout = .milliseconds(20)
        let peer = Peer(configuration, "one")
        defer { peer.client.close() }
        let led = try lead(await peer.lock.begin([key]).first)
        #expect(led.token == nil)
        await peer.lock.finish([(led, entry(1))])
        await peer.lock.fail([led], error: .init(.notFound, "x"))
    }

    @Test func anEntryThatIsNotStoredEndsItsFlightAllTheSame() async throws {
        try await withPeers { _, one, two in
            let led = try lead(await one.lock.begin([key]).first)
            await one.lock.finish([(led, nil)])
            _ = try lead(await two.lock.begin([key]).first)
        }
    }

    /// A response that must not be stored does not affect the next one.
    @Test func aCacheableResponseAfterAnUncacheableOneIsStored() async throws {
        try await withPeers { (_, one, two) async throws in
            let led = try lead(await one.lock.begin([key]).first)
            await one.lock.finish([(led, nil)])
            let first = try lead(await one.lock.begin([key]).first)
            let second = try lead(await two.lock.begin([key]).first)
            #expect(first.isUnlocked && second.isUnlocked)
            // These have no flight that they could end.
            await one.lock.fail([first], error: .init(.notFound, "no such image"))
            await one.lock.finish([(first, nil)])
            #expect(await two.lock.finish([(second, entry(1000))]) == [key])
            #expect(try hit(await one.lock.begin([key]).first).data == entry(1000).data)
            // It started earlier.
            #expect(await one.lock.finish([(first, entry(500))]) == [])
            #expect(try hit(await two.lock.begin([key]).first).data == entry(1000).data)
        }
    }

    @Test func aFullCacheEndsFlightsToo() async throws {
        try await withPeers { server, one, two in
            let client = server.client()
            defer { client.close() }
            let led = try lead(await one.lock.begin([key]).first)
            try await client.send(["CONFIG", "SET", "maxmemory", "1"])
            await one.lock.finish([(led, entry(1000))])
            try await client.send(["CONFIG", "SET", "maxmemory", "0"])
            _ = try lead(await two.lock.begin([key]).first)
        }
    }

    @Test func theDataCacheKeepsAnyBytes() async throws {
        try await RedisServerProcess.run { server in
            let client = server.client()
            defer { client.close() }
            let cache = RedisDataCache(redis: client, logger: Logger(label: "test"))
            for size in [0, 5, 3_000_000] {
                await cache.storeData(entry(size).data, for: "key \(size)")
                #expect(await cache.cachedData(for: "key \(size)") == entry(size).data)
            }
            #expect(await cache.cachedData(for: ["key 5", "none"]).map { $0?.count } == [5, nil])
            #expect(await cache.containsData(for: "key 5"))
            await cache.removeData(for: "key 5")
            #expect(await !cache.containsData(for: "key 5"))
        }
    }

    @Test func looksAndKeepsWithoutAFlight() async throws {
        try await withPeers { (_, one, other) async throws in
            let (large, none) = (CacheKey(.image, ["large"]), CacheKey(.image, ["none"]))
            await one.lock.store(entry(10), for: key)
            // In several chunks.
            await one.lock.store(entry(600_000), for: large)
            let found = await other.lock.lookUp([key, none, large])
            #expect(found.map { $0?.data } == [entry(10).data, nil, entry(600_000).data])
            #expect(found[0]?.staleness == nil && found[0]?.metadata.lifetime ?? 0 > 50)
            // The missing key has no leader.
            _ = try lead(await one.lock.begin([none]).first)
        }
    }

    @Test func onlyTheLeaderOfAFlightStoresItsEntry() async throws {
        try await withPeers { (_, one, other) async throws in
            let lead = try lead(await one.lock.begin([key]).first)
            await other.lock.store(entry(5), for: key)
            #expect(await other.lock.lookUp([key]).first?.map(\.data) == nil)
            await one.lock.finish([(lead, entry(7))])
            #expect(await other.lock.lookUp([key]).first??.data == entry(7).data)
        }
    }
}
