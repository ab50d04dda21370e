import Foundation
import MegatonPipeline
import MegatonPipelineTesting
import Synchronization
import Testing

/// The conformance suite for caches: correct caches pass it, and each check detects its fault.
@Suite(.timeLimit(.minutes(2))) struct DataCachingConformanceTests {
    /// A cache as a Nuke user has it: a class with two synchronous methods.
    final class NukeStyleCache: DataCaching {
        private let entries = Mutex<[String: Data]>([:])

        func cachedData(for key: String) -> Data? { entries.withLock { $0[key] } }

        func storeData(_ data: Data, for key: String) { entries.withLock { $0[key] = data } }
    }

    /// The defaults do the rest. Without removal, two of the checks do not apply.
    @Test(arguments: DataCachingConformance.Check.allCases.filter { $0 != .remove && $0 != .removeAll })
    func twoSynchronousMethodsConform(_ check: DataCachingConformance.Check) async throws {
        try await DataCachingConformance(NukeStyleCache()).run(check)
    }

    /// The same with all of Nuke's methods, used by its concrete type and not as an `any DataCaching`.
    final class WholeNukeStyleCache: DataCaching {
        private let entries = Mutex<[String: Data]>([:])

        func cachedData(for key: String) -> Data? { entries.withLock { $0[key] } }
        func containsData(for key: String) -> Bool { cachedData(for: key) != nil }
        func storeData(_ data: Data, for key: String) { entries.withLock { $0[key] = data } }
        func removeData(for key: String) { entries.withLock { $0[key] = nil } }
        func removeAll() { entries.withLock { $0 = [:] } }
    }

    /// In an async context the protocol's async defaults, which do nothing, must not be preferred to the type's own
    /// methods.
    @Test func itsOwnSynchronousMethodsAreCalled() async {
        let cache = WholeNukeStyleCache()
        for key in ["a", "b"] { cache.storeData(Data("x".utf8), for: key) }
        cache.removeData(for: "a")
        #expect(cache.cachedData(for: "a") == nil && cache.cachedData(for: "b") != nil)
        cache.removeAll()
        #expect(cache.cachedData(for: "b") == nil)
        let general: any DataCaching = cache
        await general.storeData(Data("x".utf8), for: "a")
        await general.removeAll()
        #expect(await !general.containsData(for: "a"))
    }

    @Test func missingKeysDoNothing() async {
        let cache = NukeStyleCache()
        cache.storeData(Data("x".utf8), for: "a")
        await cache.removeData(for: "a")
        await cache.removeAll()
        #expect(cache.cachedData(for: "a") != nil)
    }

    @Test(arguments: DataCachingConformance.Check.allCases)
    func allMethodsConform(_ check: DataCachingConformance.Check) async throws {
        try await DataCachingConformance(FaultyCache(nil)).run(check)
    }

    static let faults: [(FaultyCache.Fault, DataCachingConformance.Check)] = [
        (.inventsEntries, .miss), (.keepsNothing, .readYourWrites), (.keepsTheFirst, .overwrite),
        (.missesEmptyData, .emptyData), (.cutsLargeData, .largeData), (.takesTheWholeBuffer, .slices),
        (.containsEverything, .contains), (.cannotRemove, .remove), (.cannotRemove, .removeAll),
        (.removesAll, .remove), (.answersInItsOwnOrder, .batch), (.leavesOutMisses, .batch),
        (.ignoresCase, .oddKeys), (.endsKeysAtNUL, .oddKeys), (.cutsLongKeys, .longKeys),
        (.writesInTwoSteps, .manyWriters), (.removesBeforeItWrites, .manyWriters), (.readsItsNeighbour, .manyOwners),
    ]

    @Test(arguments: faults)
    func theSuiteSeesIt(_ fault: FaultyCache.Fault, _ check: DataCachingConformance.Check) async throws {
        let conformance = DataCachingConformance(FaultyCache(fault))
        let failure = try #require(
            await #expect(throws: ConformanceFailure.self) { try await conformance.run(check) }
        )
        #expect(failure.check == check.rawValue && failure.rule == check.rule && !failure.found.isEmpty)
        #expect(failure.description.contains(failure.rule))
    }

    @Test func everyCheckSeesSomething() {
        #expect(Set(Self.faults.map(\.1)) == Set(DataCachingConformance.Check.allCases))
    }
}
