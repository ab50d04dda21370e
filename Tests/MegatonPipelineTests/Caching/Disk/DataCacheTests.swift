import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline

/// Entries that are stored, replaced and removed, both before and after they are on the disk.
@Suite(.timeLimit(.minutes(2)), .diskCaches) struct DataCacheTests {
    private let fixture: DataCacheFixture
    private let abc = Data("abc".utf8)
    private let other = Data("other".utf8)

    init() throws { fixture = try DataCacheFixture() }

    /// Runs `body` on a cache whose writes stay staged, or on one that is flushed at each `settle`.
    private func run(_ isFlushed: Bool, _ body: (DataCache, _ settle: () async -> Void) async throws -> Void)
        async throws
    {
        let cache = try fixture.cache()
        if !isFlushed { fixture.hold() }
        try await body(cache) { if isFlushed { await cache.flush() } }
        fixture.release()
        await cache.flush()
    }

    /// A write in the staging area is visible to reads.
    @Test(arguments: [false, true]) func aStoredEntryIsFound(isFlushed: Bool) async throws {
        try await run(isFlushed) { cache, settle in
            #expect(await cache.cachedData(for: "a") == nil)
            #expect(await !cache.containsData(for: "a"))
            await cache.storeData(abc, for: "a")
            await settle()
            #expect(await cache.cachedData(for: "a") == abc)
            #expect(await cache.containsData(for: "a"))
            #expect(await cache.cachedData(for: ["b", "a", "", "a"]) == [nil, abc, nil, abc])
            #expect(await cache.cachedData(for: "A") == nil)
            #expect(fixture.files.allSatisfy { $0.contains(".tmp") } || isFlushed)
        }
        #expect(try await fixture.cache().cachedData(for: "a") == abc, "it survives the object")
    }

    /// The latest write of a key counts.
    @Test(arguments: [false, true]) func aReplacedEntryIsTheNewOne(isFlushed: Bool) async throws {
        try await run(isFlushed) { cache, settle in
            for data in [abc, other, Data(), abc, other] {
                await cache.storeData(data, for: "a")
                await settle()
                #expect(await cache.cachedData(for: "a") == data)
            }
        }
        let later = try fixture.cache()
        #expect(await later.cachedData(for: "a") == other)
        #expect(await later.totalCount == 1)
    }

    /// A removed entry is neither in the staging area nor on the disk.
    @Test(arguments: [false, true]) func aRemovedEntryIsGone(isFlushed: Bool) async throws {
        try await run(isFlushed) { cache, settle in
            await cache.storeData(abc, for: "a")
            await cache.storeData(abc, for: "b")
            await settle()
            await cache.removeData(for: "a")
            await cache.removeData(for: "never there")
            #expect(await cache.cachedData(for: "a") == nil)
            #expect(await !cache.containsData(for: "a"))
            await settle()
            #expect(await cache.cachedData(for: ["a", "b"]) == [nil, abc])
            await cache.storeData(other, for: "a")
            #expect(await cache.cachedData(for: "a") == other)
        }
        let later = try fixture.cache()
        #expect(await later.cachedData(for: ["a", "b"]) == [other, abc])
    }

    /// Removing all affects earlier writes only.
    @Test(arguments: [false, true]) func whenAllIsRemovedOnlyWhatIsNewIsThere(isFlushed: Bool) async throws {
        let early = try fixture.cache()
        await early.storeData(abc, for: "on the disk")
        await early.flush()
        try await run(isFlushed) { cache, settle in
            await cache.storeData(abc, for: "a")
            await cache.storeData(abc, for: "b")
            await settle()
            await cache.removeAll()
            #expect(await cache.cachedData(for: ["a", "b", "on the disk"]) == [nil, nil, nil])
            #expect(await !cache.containsData(for: "on the disk"))
            await cache.storeData(other, for: "b")
            #expect(await cache.cachedData(for: ["a", "b"]) == [nil, other])
            await settle()
            #expect(await cache.cachedData(for: ["a", "b", "on the disk"]) == [nil, other, nil])
        }
        let later = try fixture.cache()
        #expect(await later.totalCount == 1)
        #expect(await later.cachedData(for: "b") == other)
    }

    /// A deleted folder is created again.
    @Test func aDeletedFolderIsMadeAgain() async throws {
        let cache = try fixture.cache()
        await cache.storeData(abc, for: "a")
        await cache.flush()
        try FileManager.default.removeItem(atPath: fixture.path)
        #expect(await cache.cachedData(for: "a") == nil)
        await cache.storeData(other, for: "a")
        await cache.flush()
        #expect(await cache.cachedData(for: "a") == other)
        #expect(fixture.files.count == 1 && cache.errorCounts.isEmpty)
    }

    /// An empty key does nothing.
    @Test func anEmptyKeyIsNoKey() async throws {
        let cache = try fixture.cache()
        await cache.storeData(abc, for: "")
        await cache.flush()
        await cache.flush(for: "")
        #expect(await cache.cachedData(for: "") == nil)
        #expect(await !cache.containsData(for: ""))
        await cache.removeData(for: "")
        #expect(cache.url(for: "") == nil)
        #expect(await cache.totalCount == 0)
    }

    /// The digest is that of the first example of FIPS 180-2.
    @Test func filesAreCalledAfterTheSHA256OfTheirKey() async throws {
        let cache = try fixture.cache()
        await cache.storeData(other, for: "abc")
        await cache.flush(for: "abc")
        let name = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        #expect(fixture.files == ["cache/ba/\(name)"])
        #expect(cache.url(for: "abc")?.path(percentEncoded: false) == "\(fixture.path)/ba/\(name)")
        #expect(DataCacheFileName(hex: name[...]) == DataCacheFileName("abc"))
        #expect(DataCacheFileName("abc").hex == name && DataCacheFileName(hex: name.dropLast()) == nil)
        #expect(DataCacheFileName(hex: name.uppercased()[...]) == nil)
    }

    @Test func itsTotalsAreThoseOfTheDisk() async throws {
        let cache = try fixture.cache()
        for key in 0..<3 { await cache.storeData(.filled(key, count: 5000), for: "\(key)") }
        await cache.storeData(.filled(9, count: 5000), for: "0")
        await cache.flush()
        #expect(await cache.totalCount == 3)
        #expect(await cache.totalSize == 3 * (5000 + DataCacheBlob.headerSize))
        #expect(await cache.totalAllocatedSize >= 3 * 5000)
        await cache.removeData(for: "1")
        await cache.flush()
        #expect(await cache.totalCount == 2)
        await cache.removeAll()
        await cache.flush()
        #expect(await cache.totalSize == 0)
        #expect(await cache.totalAllocatedSize == 0)
    }

    @Test func anEntryLargerThanTheCacheIsNotStored() async throws {
        let cache = try fixture.cache { $0.sizeLimit = 10_000 }
        await cache.storeData(abc, for: "a")
        await cache.storeData(Data(count: 10_001), for: "a")
        #expect(await cache.cachedData(for: "a") == nil, "nor what it was to replace")
    }

    @Test func severalObjectsOnOneFolderSeeEachOthersFiles() async throws {
        let (one, two) = (try fixture.cache(), try fixture.cache())
        #expect(await two.totalCount == 0)
        await one.storeData(abc, for: "a")
        await one.flush()
        #expect(await two.cachedData(for: "a") == abc)
        #expect(await two.containsData(for: "a"))
        #expect(await two.totalCount == 1, "what was met is known from then on")
        await two.storeData(other, for: "a")
        await two.flush()
        #expect(await one.cachedData(for: "a") == other)
        await one.removeData(for: "a")
        await one.flush()
        #expect(await two.cachedData(for: "a") == nil)
        #expect(await two.totalCount == 0)
    }

    // MARK: - The staging area

    @Test func aWriteWaitsWhileTheStagingAreaIsFull() async throws {
        let cache = try fixture.cache { $0.stagingLimit = 2000 }
        await fixture.clock.waitForSleepers(1)
        fixture.hold()
        await cache.storeData(.filled(1, count: 1000), for: "1")
        // Awaited below.
        let second = Task { await cache.storeData(.filled(2, count: 1000), for: "2") }
        await fixture.clock.waitForSleepers(2)
        let third = Task { await cache.storeData(.filled(3, count: 1), for: "3") }
        await fixture.clock.waitForSleepers(3)
        #expect(await cache.cachedData(for: ["1", "2", "3"]) == [.filled(1, count: 1000), nil, nil], "no overtaking")
        fixture.release(2)
        await second.value
        await third.value
        #expect(await cache.cachedData(for: "2") == .filled(2, count: 1000))
        fixture.release()
        await cache.flush()
        #expect(await cache.totalCount == 3)
        #expect(cache.errorCounts.isEmpty)
    }

    @Test func aWriteThatWaitsTooLongOrIsCancelledDropsItsEntry() async throws {
        let cache = try fixture.cache { $0.stagingLimit = 2000 }
        await fixture.clock.waitForSleepers(1)
        fixture.hold()
        await cache.storeData(.filled(1, count: 1900), for: "1")
        let slow = Task { await cache.storeData(.filled(2, count: 1900), for: "2") }  // Awaited below.
        await fixture.clock.waitForSleepers(2)
        fixture.clock.advance(by: .seconds(10))
        await slow.value
        let cancelled = Task { await cache.storeData(.filled(3, count: 1900), for: "3") }  // Awaited below.
        await fixture.clock.waitForSleepers(2)
        cancelled.cancel()
        await cancelled.value
        #expect(cache.errorCounts.values.reduce(0, +) == 2)
        #expect(fixture.log.recorded.count == 1)
        fixture.release()
        await cache.flush()
        #expect(await cache.cachedData(for: ["1", "2", "3"]) == [.filled(1, count: 1900), nil, nil])
    }

    /// Fault: a removal waited for room, and was dropped: a damaged image was served again and again.
    @Test func aRemovalNeedsNoRoom() async throws {
        let cache = try fixture.cache { $0.stagingLimit = 2000 }
        await fixture.clock.waitForSleepers(1)
        for key in ["a", "b"] {
            await cache.storeData(abc, for: key)
            await cache.flush()
        }
        fixture.hold()
        await cache.storeData(.filled(1, count: 1900), for: "1")
        let older = Task { await cache.storeData(.filled(2, count: 1900), for: "a") }  // Awaited below.
        await fixture.clock.waitForSleepers(2)
        await cache.removeData(for: "a")
        #expect(await cache.cachedData(for: ["a", "b"]) == [nil, abc])
        await older.value
        let cancelled = Task { await cache.removeData(for: "b") }  // Awaited below.
        cancelled.cancel()
        await cancelled.value
        #expect(await cache.cachedData(for: "b") == nil)
        fixture.release()
        await cache.flush()
        #expect(await cache.cachedData(for: ["1", "a", "b"]) == [.filled(1, count: 1900), nil, nil])
        #expect(cache.errorCounts.isEmpty)
    }

    /// Fault: each hit in a cache behind a slow disk waited for ten seconds, until its copy was dropped.
    @Test func aCopyOfDataThatWasReadDoesNotWait() async throws {
        let disk = try fixture.cache { $0.stagingLimit = 2000 }
        await fixture.clock.waitForSleepers(1)
        fixture.hold()
        await disk.storeData(.filled(1, count: 1900), for: "1")
        let key = CacheKey(.rendition, ["a"])
        let entry = CachedData(data: .filled(2, count: 1900), metadata: .init(lifetime: 3600))
        let shared = SharedFlights()
        shared.entries[key] = entry
        // Its copies would be in the disk cache alone, or in one of its layers.
        for near in [disk, LayeredDataCache([disk])] as [any DataCaching] {
            let flights = LayeredSingleFlight(near, over: shared)
            #expect(await flights.lookUp([key])[0]?.data == entry.data)
            #expect(await flights.begin([key]).first?.entry?.data == entry.data)
        }
        #expect(shared.looks == 4)
        let lower = MemoryDataCache()
        await lower.storeData(abc, for: "abc")
        let filler = Task { await disk.storeData(.filled(3, count: 1900), for: "abc") }  // Awaited below.
        await fixture.clock.waitForSleepers(2)
        #expect(await LayeredDataCache([disk, lower]).cachedData(for: "abc") == abc)
        #expect(disk.errorCounts.values.reduce(0, +) == 5 && fixture.log.recorded.count == 1)
        fixture.release()
        await filler.value
        await disk.flush()
        let flights = LayeredSingleFlight(disk, over: shared)
        for _ in 0..<2 { #expect(await flights.lookUp([key])[0]?.data == entry.data) }
        #expect(shared.looks == 5, "the disk is fast again, and has a copy")
    }

    /// The memory of a process whose disk hangs is bounded.
    @Test func veryManyRemovalsBecomeOneOfAll() async throws {
        let cache = try fixture.cache { $0.stagingLimit = 2000 }
        await cache.storeData(abc, for: "a")
        await cache.flush()
        fixture.hold()
        await cache.storeData(abc, for: "1")
        // The entry before them may be among those that wait.
        for key in 1..<DataCacheStaging.minimumCount { await cache.removeData(for: "none \(key)") }
        #expect(await cache.cachedData(for: "a") == abc)
        for key in ["none of all", "nor this"] { await cache.removeData(for: key) }
        #expect(await cache.cachedData(for: "a") == nil)
        await cache.storeData(other, for: "b")
        fixture.release()
        await cache.flush()
        #expect(await cache.cachedData(for: ["a", "b"]) == [nil, other])
        #expect(await cache.totalCount == 1)
    }

    @Test func somethingLargerThanTheStagingAreaPassesAlone() async throws {
        let cache = try fixture.cache { $0.stagingLimit = 10 }
        for key in 0..<3 { await cache.storeData(.filled(key, count: 1000), for: "\(key)") }
        await cache.flush()
        #expect(await cache.totalCount == 3)
    }

    @Test func aFlushOfOneKeyDoesNotWaitForThoseBehindIt() async throws {
        let cache = try fixture.cache()
        await cache.sweep()
        fixture.hold()
        await cache.storeData(abc, for: "a")
        await cache.storeData(abc, for: "b")
        await cache.flush(for: "nothing is known of it")
        fixture.release(2)
        await cache.flush(for: "a")
        #expect(fixture.files.filter { !$0.contains(".tmp") }.count == 1)
        fixture.release()
        await cache.flush()
        #expect(fixture.files.count == 2)
    }

    @Test func stagedDataIsWrittenAfterTheLastReferenceToTheCacheIsGone() async throws {
        var cache: DataCache? = try fixture.cache()
        fixture.hold()
        for key in 0..<20 { await cache?.storeData(.filled(key), for: "\(key)") }
        await cache?.removeData(for: "19")
        let last = try #require(cache?.url(for: "18")?.path(percentEncoded: false))
        cache = nil
        fixture.release()
        while !FileManager.default.fileExists(atPath: last), !Task.isCancelled { await Task.yield() }
        let later = try fixture.cache()
        for key in 0..<19 { #expect(await later.cachedData(for: "\(key)") == .filled(key)) }
    }

    // MARK: - Creation

    @Test func aFolderThatCannotBeUsedIsAnError() throws {
        let directory = fixture.directory
        try directory.write(abc, to: "file")
        for path in ["\(directory.path)/file", "\(directory.path)/file/cache", "/proc/cache"] {
            #expect { try DataCache(path: URL(fileURLWithPath: path)) } throws: { error in
                (error as? ImagePipeline.Error)?.code == .outputFailed
            }
        }
        #expect { try DataCache(path: URL(string: "https://example.org")!) } throws: { error in
            (error as? ImagePipeline.Error)?.code == .invalidURL
        }
        for name in ["", ".", "..", "a/b", "a\0"] {
            #expect { try DataCache(name: name) } throws: { ($0 as? ImagePipeline.Error)?.code == .forbidden }
        }
    }

    @Test func aNamedCacheLiesWhereTheUsersCachesDo() async throws {
        let name = "megaton-test-\(UInt64.random(in: .min ... .max))"
        let cache = try DataCache(name: name)
        let path = cache.path
        #expect(path.lastPathComponent == name)
        await cache.storeData(abc, for: "a")
        #expect(await cache.cachedData(for: "a") == abc)
        await cache.flush()
        try FileManager.default.removeItem(at: path)
    }

    // MARK: - Stress

    /// Some thousand steps, with new cache objects now and then, checked against a dictionary.
    @Test(arguments: [1, 2] as [UInt64]) func itDoesWhatADictionaryDoes(seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        var cache = try fixture.cache()
        var model: [String: Data] = [:]
        for step in 0..<3000 {
            let key = "\(Int.random(in: 0..<20, using: &random))"
            switch Int.random(in: 0..<1000, using: &random) {
            case 0..<400:
                let data = Data.filled(step, count: Int.random(in: 0..<3000, using: &random))
                await cache.storeData(data, for: key)
                model[key] = data
            case 400..<550:
                await cache.removeData(for: key)
                model[key] = nil
            case 550..<555:
                await cache.removeAll()
                model = [:]
            case 555..<580: await cache.flush(for: key)
            case 580..<590: await cache.sweep()
            case 590..<595:
                await cache.flush()
                cache = try fixture.cache()
            default: #expect(await cache.cachedData(for: key) == model[key])
            }
        }
        await cache.flush()
        #expect(await cache.totalCount == model.count)
        #expect(fixture.files.count == model.count && cache.errorCounts.isEmpty)
    }

    @Test func manyMayUseItAtTheSameTime() async throws {
        let fixture = fixture
        let caches = [try fixture.cache { $0.stagingLimit = 20_000 }, try fixture.cache()]
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<8 {
                group.addTask {
                    let cache = caches[task % 2]
                    for step in 0..<150 {
                        let key = (step * 7 + task) % 25
                        await cache.storeData(.filled(key, count: 500 + step), for: "\(key)")
                        let found = await cache.cachedData(for: "\(key)")
                        #expect(found.map { Set($0) } ?? [UInt8(key)] == [UInt8(key)])
                        if step % 9 == 0 { await cache.removeData(for: "\(key)") }
                        if step % 70 == 0 { await cache.removeAll() }
                        if step % 50 == 0 { await cache.flush() }
                    }
                }
            }
        }
        for cache in caches {
            await cache.flush()
            #expect(cache.errorCounts.isEmpty)
        }
        #expect(!fixture.files.contains { $0.contains(".tmp") })
    }
}
