import Foundation
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

/// Layers of caches: one lookup in each layer, promotion, and entries that must not be promoted.
@Suite(.timeLimit(.minutes(2)), .diskCaches) struct LayeredDataCacheTests {
    private let upper = Layer()
    private let middle = Layer()
    private let lower = Layer()
    private let cache: LayeredDataCache
    private let one = Data("one".utf8)
    private let two = Data("two".utf8)

    init() { cache = LayeredDataCache([upper, middle, lower]) }

    @Test func entriesOfALowerLayerArePromoted() async {
        lower.entries["a"] = one
        let first = await cache.lookUp(["a"])[0]
        #expect(first?.data == one && first?.layer == 2)
        #expect(upper.entries["a"] == one && middle.entries["a"] == one)
        #expect(await cache.lookUp(["a"])[0]?.layer == 0)
        upper.entries["a"] = nil
        #expect(await cache.lookUp(["a"])[0]?.layer == 1)
        #expect(upper.entries["a"] == one && lower.log == ["get a"])
    }

    @Test func eachLayerIsAskedOnceForWhatIsStillMissing() async {
        upper.entries["a"] = one
        middle.entries["b"] = two
        lower.entries["c"] = one
        let found = await cache.lookUp(["d", "c", "a", "b", "a", "d"])
        #expect(found.map { $0?.layer } == [nil, 2, 0, 1, 0, nil])
        #expect(found.map { $0?.data } == [nil, one, one, two, one, nil])
        #expect(upper.log.first == "get d c a b" && middle.log.first == "get d c b" && lower.log == ["get d c"])
        #expect(await cache.cachedData(for: ["a", "b", "c"]) == [one, two, one])
        #expect(lower.log == ["get d c"], "all is in the first one now")
        #expect(await cache.cachedData(for: [String]()) == [])
    }

    @Test func changesReachAllLayers() async {
        await cache.storeData(one, for: "a")
        #expect([upper, middle, lower].allSatisfy { $0.entries == ["a": one] })
        #expect(await cache.containsData(for: "a"))
        await cache.removeData(for: "a")
        #expect([upper, middle, lower].allSatisfy { $0.entries.isEmpty })
        #expect(await !cache.containsData(for: "a"))
        await cache.storeData(one, for: "b")
        await cache.removeAll()
        #expect(await cache.cachedData(for: "b") == nil)
        lower.entries["c"] = one
        #expect(await cache.containsData(for: "c"))
        #expect(upper.entries.isEmpty, "asking is no reading")
    }

    /// An entry found in a lower layer is outdated if it is replaced or removed, or all are removed, before its
    /// promotion.
    @Test(arguments: ["store", "remove", "remove all"]) func anOutdatedEntryIsNotPromoted(change: String) async {
        lower.entries["a"] = one
        let found = lower.holdAnswers()
        async let late = cache.cachedData(for: "a")
        await found.value
        switch change {
        case "store": await cache.storeData(two, for: "a")
        case "remove": await cache.removeData(for: "a")
        default: await cache.removeAll()
        }
        lower.release()
        #expect(await late == one, "it was so when it was asked")
        let expected = change == "store" ? two : nil
        #expect(upper.entries["a"] == expected && middle.entries["a"] == expected && lower.entries["a"] == expected)
        #expect(await cache.cachedData(for: "a") == expected)
    }

    /// The other way round: a change that arrives during a promotion wins.
    @Test(arguments: ["store", "remove", "remove all"]) func aChangeComesAfterAPromotion(change: String) async {
        lower.entries["a"] = one
        let storing = upper.holdStores()
        async let read = cache.cachedData(for: "a")
        await storing.value
        // Awaited below.
        let changing = Task { [cache, two] in
            switch change {
            case "store": await cache.storeData(two, for: "a")
            case "remove": await cache.removeData(for: "a")
            default: await cache.removeAll()
            }
        }
        // `removeAll` does not wait; changes of the key wait for the promotion.
        if change == "remove all" { await changing.value }
        upper.release()
        #expect(await read == one)
        await changing.value
        #expect(await cache.cachedData(for: "a") == (change == "store" ? two : nil))
    }

    @Test func withoutLayersNothingIsKept() async {
        let cache = LayeredDataCache([])
        await cache.storeData(one, for: "a")
        #expect(await cache.cachedData(for: ["a"]) == [nil])
        #expect(await !cache.containsData(for: "a"))
    }

    /// A conformance as written for Nuke: two synchronous methods.
    @Test func aCacheMadeForNukeIsALayer() async {
        let cache = LayeredDataCache([MemoryDataCache(), Plain()])
        await cache.storeData(one, for: "a")
        #expect(await cache.lookUp(["a"])[0]?.layer == 0)
    }

    @Test func memoryOverDisk() async throws {
        let fixture = try DataCacheFixture()
        let (memory, disk) = (MemoryDataCache(), try fixture.cache())
        let cache = LayeredDataCache([memory, disk])
        await cache.storeData(one, for: "a")
        await disk.flush()
        await memory.removeAll()
        #expect(await cache.lookUp(["a", "b"]).map { $0?.layer } == [1, nil])
        #expect(await cache.lookUp(["a", "b"]).map { $0?.layer } == [0, nil])
        await cache.removeAll()
        #expect(await cache.cachedData(for: "a") == nil)
    }

    @Test func manyMayUseItAtTheSameTime() async throws {
        let fixture = try DataCacheFixture()
        let cache = LayeredDataCache([MemoryDataCache(costLimit: 5000), try fixture.cache()])
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<6 {
                group.addTask {
                    // Each task has its own keys, so it knows their values.
                    for step in 0..<200 {
                        let key = "\(task)-\(step % 10)"
                        await cache.storeData(.filled(step), for: key)
                        #expect(await cache.cachedData(for: key) == .filled(step))
                        if step % 7 == 0 {
                            await cache.removeData(for: key)
                            #expect(await cache.cachedData(for: key) == nil)
                        }
                        _ = await cache.lookUp((0..<6).map { "\($0)-\(step % 10)" })
                    }
                }
            }
        }
    }
}

/// A layer that records its calls, and can be held before it answers.
private final class Layer: DataCaching {
    private struct State {
        var entries: [String: Data] = [:]
        var log: [String] = []
        var held: (gets: Bool, reached: Promise<Void>)?
        var waiting: [Promise<Void>] = []
    }

    private let state = Mutex(State())

    var entries: [String: Data] {
        get { state.withLock { $0.entries } }
        set { state.withLock { $0.entries = newValue } }
    }

    var log: [String] { state.withLock { $0.log } }

    /// Holds an answer, which has already been looked up, until `release`. The returned value resolves once one is
    /// held.
    func holdAnswers() -> Promise<Void> { hold(gets: true) }
    func holdStores() -> Promise<Void> { hold(gets: false) }

    private func hold(gets: Bool) -> Promise<Void> {
        let reached = Promise<Void>()
        state.withLock { $0.held = (gets, reached) }
        return reached
    }

    func release() {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        for answer in waiting { answer.resolve(()) }
    }

    /// The first call is held, later ones pass.
    private func pass(gets: Bool) async {
        let (reached, answer) = state.withLock { state -> (Promise<Void>?, Promise<Void>) in
            let answer = Promise<Void>()
            guard let held = state.held, held.gets == gets else { return (nil, answer) }
            state.held = nil
            state.waiting.append(answer)
            return (held.reached, answer)
        }
        guard let reached else { return }
        reached.resolve(())
        await answer.value
    }

    func cachedData(for key: String) async -> Data? { await cachedData(for: [key])[0] }

    func cachedData(for keys: [String]) async -> [Data?] {
        let found = state.withLock { state in
            state.log.append("get " + keys.joined(separator: " "))
            return keys.map { state.entries[$0] }
        }
        await pass(gets: true)
        return found
    }

    func storeData(_ data: Data, for key: String) async {
        await pass(gets: false)
        state.withLock { $0.entries[key] = data }
    }

    func removeData(for key: String) async { state.withLock { $0.entries[key] = nil } }
    func removeAll() async { state.withLock { $0.entries = [:] } }
}

private final class Plain: DataCaching {
    private let entries = Mutex<[String: Data]>([:])

    func cachedData(for key: String) -> Data? { entries.withLock { $0[key] } }
    func storeData(_ data: Data, for key: String) { entries.withLock { $0[key] = data } }
}
