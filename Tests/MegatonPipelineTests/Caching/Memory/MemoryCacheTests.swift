import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct MemoryCacheTests {
    private let clock = ManualClock()

    private func cache(costLimit: Int = .max, countLimit: Int = .max) -> Cache<Int, String> {
        Cache(costLimit: costLimit, countLimit: countLimit, time: TimeSource(clock))
    }

    /// Strictly less than the limit for one entry.
    @Test func anEntryThatCostsTooMuchIsNotStored() {
        let cache = cache(costLimit: 100)
        #expect(cache.set("a", for: 1, cost: 9))
        #expect(!cache.set("b", for: 2, cost: 10))
        #expect(cache.value(for: 2) == nil && cache.totalCost == 9)
        cache.entryCostLimit = 1
        #expect(cache.set("b", for: 2, cost: 92))
        #expect(cache.value(for: 1) == nil && cache.value(for: 2) == "b", "it needed all of the room")
    }

    @Test func anEntryOverwrittenByOneThatCostsTooMuchIsGone() {
        let cache = cache(costLimit: 100)
        cache.set("old", for: 1, cost: 1)
        cache.set("new", for: 1, cost: 50)
        #expect(cache.value(for: 1) == nil && cache.totalCost == 0 && cache.totalCount == 0)
    }

    /// Recently used entries get a second chance.
    @Test func anEntryThatWasReadGetsASecondChance() {
        let cache = cache(countLimit: 3)
        for key in 1...3 { cache.set("\(key)", for: key) }
        _ = cache.value(for: 1)
        cache.set("4", for: 4)
        #expect((1...4).filter(cache.contains) == [1, 3, 4])
        cache.set("5", for: 5)
        #expect((1...5).filter(cache.contains) == [1, 4, 5], "it has gone to the end of the line")
        cache.set("6", for: 6)
        #expect((1...6).filter(cache.contains) == [4, 5, 6], "a second chance, no third")
    }

    /// Overwriting counts as use.
    @Test func overwritingCountsAsUse() {
        let cache = cache(countLimit: 3)
        for key in 1...3 { cache.set("\(key)", for: key) }
        cache.set("one", for: 1)
        cache.set("4", for: 4)
        #expect((1...4).filter(cache.contains) == [1, 3, 4])
        // It is the last in line by now; only the use keeps it longer than an entry that was added later.
        for key in 5...6 { cache.set("\(key)", for: key) }
        #expect((1...6).filter(cache.contains) == [1, 5, 6])
        #expect(cache.value(for: 1) == "one")
    }

    @Test func askingWhetherItIsThereIsNoUse() {
        let cache = cache(countLimit: 2)
        cache.set("1", for: 1)
        cache.set("2", for: 2)
        #expect(cache.contains(1))
        cache.set("3", for: 3)
        #expect(!cache.contains(1))
    }

    /// The cache's time to live, an entry's own, and expired entries.
    @Test func entriesLiveAsLongAsTheyShould() {
        let cache = cache()
        cache.set("for ever", for: 1)
        cache.ttl = .seconds(10)
        cache.set("ten", for: 2)
        cache.set("two", for: 3, ttl: .seconds(2))
        clock.advance(by: .seconds(2))
        #expect(cache.totalCount == 3, "no lookup has removed it yet")
        #expect(!cache.contains(3) && cache.value(for: 3) == nil && cache.totalCount == 2)
        clock.advance(by: .seconds(7.9))
        #expect(cache.value(for: 2) == "ten", "a use does not prolong it")
        clock.advance(by: .seconds(0.1))
        #expect(cache.value(for: 2) == nil && cache.value(for: 1) == "for ever")
    }

    @Test func anExpiredEntryGetsNoSecondChance() {
        let cache = cache(countLimit: 2)
        cache.set("1", for: 1, ttl: .seconds(1))
        _ = cache.value(for: 1)
        cache.set("2", for: 2)
        clock.advance(by: .seconds(1))
        cache.set("3", for: 3)
        #expect([1, 2, 3].filter(cache.contains) == [2, 3])
    }

    @Test func limitsHoldAtOnceWhenTheyAreLowered() {
        let cache = cache(costLimit: 1000)
        for key in 0..<10 { cache.set("\(key)", for: key, cost: 10) }
        cache.costLimit = 55
        #expect(cache.totalCost == 50 && cache.totalCount == 5)
        cache.countLimit = 2
        #expect(cache.totalCost == 20 && (0..<10).filter(cache.contains) == [8, 9])
        cache.countLimit = 0
        #expect(!cache.set("none", for: 11) && cache.totalCount == 0)
    }

    @Test func itIsTrimmed() {
        let cache = cache()
        for key in 0..<10 { cache.set("\(key)", for: key, cost: key) }
        cache.trim(toCost: 17)
        #expect((0..<10).filter(cache.contains) == [8, 9] && cache.totalCost == 17)
        cache.trim(toCount: 1)
        #expect(cache.totalCost == 9)
        #expect(cache.removeValue(for: 9) == "9" && cache.totalCost == 0)
        cache.set("1", for: 1, cost: 1)
        cache.removeAll()
        #expect(cache.totalCost == 0 && cache.totalCount == 0 && cache.value(for: 1) == nil)
    }

    @Test func costsNearTheEndOfTheNumbersDoNotTrap() {
        let cache = cache()
        cache.entryCostLimit = 2
        for key in 0..<3 { cache.set("\(key)", for: key, cost: .max - 1) }
        #expect(cache.totalCount == 1 && cache.value(for: 2) == "2")
    }

    /// Thousands of steps, checked against a plain model.
    @Test(arguments: [1, 2, 3] as [UInt64]) func itDoesWhatClockSays(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let cache = Cache<Int, Int>(costLimit: 40, countLimit: 12, time: TimeSource(clock))
        cache.entryCostLimit = 0.5
        var model: [(key: Int, value: Int, cost: Int, isUsed: Bool)] = []
        for step in 0..<5000 {
            let key = Int.random(in: 0..<24, using: &random)
            let place = model.firstIndex { $0.key == key }
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                #expect(cache.removeValue(for: key) == place.map { model.remove(at: $0).value })
            case 1:
                let cost = Int.random(in: 0..<24, using: &random)
                if let place { model.remove(at: place) }
                cache.set(step, for: key, cost: cost)
                if cost >= 20 { continue }
                while model.count >= 12 || model.reduce(cost, { $0 + $1.cost }) > 40 {
                    var first = model.removeFirst()
                    if first.isUsed {
                        first.isUsed = false
                        model.append(first)
                    }
                }
                model.append((key, step, cost, place != nil))
            default:
                #expect(cache.value(for: key) == place.map { model[$0].value })
                if let place { model[place].isUsed = true }
            }
            #expect(cache.totalCount == model.count && cache.totalCost == model.reduce(0) { $0 + $1.cost })
        }
    }

    @Test func manyMayUseItAtTheSameTime() async {
        let cache = Cache<Int, Int>(costLimit: 1000, countLimit: 50, time: TimeSource(clock))
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<8 {
                group.addTask {
                    for step in 0..<2000 {
                        let key = (step * 7 + task) % 100
                        cache.set(key, for: key, cost: 30)
                        if let value = cache.value(for: key) { #expect(value == key) }
                        if step % 5 == 0 { cache.removeValue(for: key) }
                        #expect(cache.totalCost <= 1000 && cache.totalCount <= 50)
                    }
                }
            }
        }
    }

    // MARK: - As a data cache

    @Test func itKeepsData() async {
        let cache: any DataCaching = MemoryDataCache(costLimit: 100, clock: clock)
        await cache.storeData(Data("abc".utf8), for: "a")
        await cache.storeData(Data(count: 10), for: "too large")
        #expect(await cache.cachedData(for: "a") == Data("abc".utf8))
        #expect(await cache.cachedData(for: ["b", "a", "too large"]) == [nil, Data("abc".utf8), nil])
        #expect(await cache.containsData(for: "a"))
        await cache.removeData(for: "a")
        #expect(await !cache.containsData(for: "a"))
        await cache.storeData(Data("abc".utf8), for: "a")
        await cache.removeAll()
        #expect(await cache.cachedData(for: "a") == nil)
    }

    @Test func itsLimitsAreSet() async {
        let cache = MemoryDataCache(costLimit: 100, countLimit: 3, ttl: .seconds(5), clock: clock)
        cache.entryCostLimit = 1
        for key in ["a", "b", "c", "d"] { await cache.storeData(Data(count: 20), for: key) }
        #expect(cache.totalCount == 3 && cache.totalCost == 60)
        cache.trim(toCount: 2)
        cache.trim(toCost: 30)
        #expect(cache.totalCount == 1)
        #expect(await cache.containsData(for: "d"))
        clock.advance(by: .seconds(5))
        #expect(await cache.cachedData(for: "d") == nil)
        cache.ttl = nil
        cache.countLimit = 1
        cache.costLimit = 10
        await cache.storeData(Data(count: 20), for: "e")
        await cache.storeData(Data(count: 9), for: "f")
        #expect(cache.totalCost == 9 && cache.costLimit == 10 && cache.countLimit == 1)
        #expect(cache.entryCostLimit == 1 && cache.ttl == nil)
    }

    @Test func aSliceIsKeptAsItsOwnBytes() async {
        let cache = MemoryDataCache(clock: clock)
        await cache.storeData(Data("header and data".utf8).dropFirst(11), for: "a")
        let found = await cache.cachedData(for: "a")
        #expect(found?.startIndex == 0 && found == Data("data".utf8))
    }
}
