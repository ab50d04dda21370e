import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

/// Near-cache copies of a shared cache's entries: how long they are used, and what invalidates them.
@Suite(.timeLimit(.minutes(2))) struct LayeredSingleFlightTests {
    private let clock = ManualClock()
    private let local = CountingDataCache()
    private let shared = SharedFlights()
    private let flights: LayeredSingleFlight
    private let key = CacheKey(.rendition, ["a"])
    private let one = CachedData(data: Data("one".utf8), metadata: .init(lifetime: 3600))
    private let two = CachedData(data: Data("two".utf8), metadata: .init(lifetime: 3600))

    init() {
        let clock = clock
        let time = TimeSource(clock, date: clock.date)
        flights = LayeredSingleFlight(local, over: shared, ttl: .seconds(60), time: time)
        // Times of changes and of lookups must differ.
        clock.advance(by: .seconds(1))
    }

    private func found() async -> Data? {
        let (looks, hits) = (await flights.lookUp([key])[0]?.data, await flights.begin([key]).first)
        if case .hit(let entry)? = hits { #expect(entry.data == looks) } else { #expect(looks == nil) }
        return looks
    }

    @Test func aCopyAnswersInThePlaceOfTheSharedCache() async {
        shared.entries[key] = one
        #expect(await found() == one.data)
        #expect(shared.looks == 1)
        clock.advance(by: .seconds(59))
        let entry = await flights.lookUp([key])[0]
        #expect(entry?.data == one.data && entry?.metadata.lifetime == 3600 - 59)
        #expect(shared.looks == 1)
    }

    @Test func itIsTrustedForAWhileOnly() async {
        shared.entries[key] = one
        #expect(await found() == one.data)
        shared.entries[key] = two
        clock.advance(by: .seconds(60))
        #expect(await found() == two.data, "the shared cache is asked again, and its answer is copied")
        #expect(shared.looks == 2)
        shared.entries[key] = nil
        clock.advance(by: .seconds(60))
        #expect(await found() == nil, "no process reported the deletion")
    }

    @Test func itIsNoLongerFreshThanTheEntry() async {
        var short = one
        short.metadata.lifetime = 10
        shared.entries[key] = short
        #expect(await found() == one.data)
        shared.entries[key] = two
        clock.advance(by: .seconds(10))
        #expect(await found() == two.data)
    }

    @Test(arguments: [true, false]) func anEntryDeletedByAnotherProcessIsLookedUpAgain(isNamed: Bool) async {
        shared.entries[key] = one
        #expect(await found() == one.data)
        clock.advance(by: .seconds(1))
        shared.entries[key] = nil
        shared.tell(isNamed ? key : nil)
        #expect(await found() == nil)
    }

    @Test func aNewEntryIsInBothCaches() async {
        clock.advance(by: .seconds(1))
        let lead = SingleFlight.Leader(key: key, token: 1)
        #expect(await flights.finish([(lead, one)]) == [key])
        #expect(shared.entries[key]?.data == one.data)
        #expect(await found() == one.data && shared.looks == 0)
        clock.advance(by: .seconds(1))
        #expect(await flights.store(two, for: key))
        #expect(shared.entries[key]?.data == two.data)
        #expect(await found() == two.data && shared.looks == 0)
        clock.advance(by: .seconds(1))
        await flights.discard(key)
        #expect(shared.entries[key] == nil && local.entries.isEmpty)
        #expect(await found() == nil)
        clock.advance(by: .seconds(1))
        await flights.store(one, for: key)
        await flights.fail([lead], error: .init(.notFound, "It is gone."))
        #expect(await found() == nil && local.entries.isEmpty)
        clock.advance(by: .seconds(1))
        await flights.store(one, for: key)
        await flights.finish([(lead, nil)])
        #expect(await found() == nil && local.entries.isEmpty)
    }

    /// A leader that had lost its lease finishes late: another leader's entry is already stored.
    @Test func anEntryThatTheSharedCacheRefusesIsNotCopied() async {
        shared.entries[key] = two
        shared.refuses = true
        #expect(await flights.finish([(SingleFlight.Leader(key: key, token: 1), one)]) == [])
        #expect(await found() == two.data)
        clock.advance(by: .seconds(1))
        #expect(await !flights.store(one, for: key))
        #expect(await found() == two.data)
    }

    /// Without the shared cache every caller leads, and stores its own copies.
    @Test func anEntryOfALeaderWithoutALockIsCopied() async {
        shared.refuses = true
        await flights.finish([(SingleFlight.Leader(key: key, token: nil), one)])
        #expect(await found() == one.data)
    }

    /// The entry is read before the deletion, and arrives after it.
    @Test(arguments: [true, false]) func anEntryInTransitIsNotCopied(byOthers: Bool) async {
        shared.entries[key] = one
        shared.duringLook = { [shared, flights, key, clock] in
            shared.duringLook = nil
            clock.advance(by: .seconds(1))
            if byOthers {
                shared.entries[key] = nil
                shared.tell(key)
            } else {
                await flights.discard(key)
            }
            clock.advance(by: .seconds(1))
        }
        #expect(await flights.lookUp([key])[0]?.data == one.data, "it was so when it was asked")
        #expect(await found() == nil)
    }

    /// A waiter asks the shared cache, because it wants the result of the flight.
    @Test func aWaiterAsksTheSharedCache() async {
        shared.entries[key] = one
        #expect(await found() == one.data)
        shared.entries[key] = two
        let decision = await flights.begin([key], after: [.init(key: key, remaining: 1)]).first
        if case .hit(let entry)? = decision { #expect(entry.data == two.data) } else { Issue.record("no hit") }
    }

    @Test func onlyWhatIsMissingIsAskedFor() async {
        let keys = ["b", "c", "d"].map { CacheKey(.rendition, [$0]) }
        shared.entries[keys[1]] = one
        _ = await flights.lookUp([keys[1]])
        shared.entries[keys[2]] = two
        let decisions = await flights.begin(keys)
        #expect(shared.asked.last == [keys[0], keys[2]])
        let hits = decisions.map { decision -> Data? in
            if case .hit(let entry) = decision { return entry.data }
            return nil
        }
        #expect(hits == [nil, one.data, two.data])
        #expect(decisions[0].leader?.token == 1)
    }

    @Test func changesThatAreRememberedAreBounded() {
        let clock = clock
        let validity = NearCacheValidity(.seconds(60), limit: 10, date: clock.date)
        let seen = clock.date()
        clock.advance(by: .seconds(1))
        #expect(validity.isValid("x", seen: seen))
        for index in 0..<10 { validity.invalidate("\(index)") }
        #expect(validity.isValid("x", seen: seen) && !validity.isValid("3", seen: seen))
        validity.invalidate("10")
        #expect(!validity.isValid("x", seen: seen) && !validity.isValid("3", seen: seen))
        let later = clock.date() + 1
        clock.advance(by: .seconds(1))
        #expect(validity.isValid("x", seen: later) && validity.isValid("3", seen: later))
    }

    /// Entries that a pipeline without a shared cache left on the disk are not copies of a shared cache's entries.
    @Test func anEntryThatIsNoCopyIsNotUsed() async {
        await LocalSingleFlight(cache: local).store(one, for: key)
        #expect(await found() == nil)
        for damaged in ["L1", "N1"] {
            await local.storeData(Data(damaged.utf8), for: key.description)
            #expect(await found() == nil)
        }
    }

    // MARK: - Configuration

    @Test(arguments: [true, false]) func theOrderInWhichAConfigurationIsSetDoesNotMatter(cacheFirst: Bool) async {
        var configuration = ImagePipeline.Configuration()
        if cacheFirst { configuration.dataCache = local }
        configuration.flights = shared
        if !cacheFirst { configuration.dataCache = local }
        shared.entries[key] = one
        #expect(await configuration.coordinator.lookUp([key])[0]?.data == one.data)
        #expect(shared.looks == 1 && local.entries.count == 1)
        configuration.dataCache = nil
        #expect(await configuration.coordinator.lookUp([key])[0]?.data == one.data)
        #expect(shared.looks == 2)
    }

    // Fault: observers of pipelines and of changed configurations stayed registered as long as the shared coordinator
    // lived.
    @Test func anObserverThatIsGoneIsNotNotified() {
        let shared = SharedFlights()
        var pipeline: ImagePipeline? = ImagePipeline {
            $0.dataCache = MemoryDataCache()
            $0.flights = shared
            $0.nearCacheTTL = .seconds(1)
        }
        #expect(shared.observerCount == 1 && pipeline != nil)
        pipeline = nil
        #expect(shared.observerCount == 0)
    }
}
