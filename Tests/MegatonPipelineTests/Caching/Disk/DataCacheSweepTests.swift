import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline

/// Sweeps of the disk: limits, the order of eviction, and the files that a sweep deletes.
@Suite(.timeLimit(.minutes(2)), .diskCaches) struct DataCacheSweepTests {
    private let fixture: DataCacheFixture
    /// `weight` is the disk usage that an entry of `size` bytes is counted as, which depends on the file system.
    private let size = 5000
    private let weight: Int

    init() async throws {
        fixture = try DataCacheFixture()
        let probe = try fixture.cache()
        await probe.storeData(.filled(1, count: size), for: "probe")
        await probe.flush()
        weight = await probe.totalAllocatedSize
        await probe.removeAll()
        await probe.flush()
    }

    private func store(_ keys: Range<Int>, in cache: DataCache) async {
        for key in keys { await cache.storeData(.filled(key, count: size), for: "\(key)") }
        await cache.flush()
    }

    private func kept(_ keys: Range<Int>, in cache: DataCache) async -> [Int] {
        var kept: [Int] = []
        for key in keys where await cache.containsData(for: "\(key)") { kept.append(key) }
        return kept
    }

    /// A sweep reduces the total count.
    @Test func aSweepMakesRoom() async throws {
        let (limit, weight) = (10 * weight, weight)
        let cache = try fixture.cache {
            $0.sizeLimit = limit
            $0.isSweepEnabled = false
        }
        await store(0..<20, in: cache)
        #expect(await cache.totalCount == 20, "it does nothing by itself")
        await cache.sweep()
        #expect(await kept(0..<20, in: cache) == Array(13..<20), "0.7 of the limit is left")
        #expect(await cache.totalAllocatedSize == 7 * weight)
        await cache.sweep()
        #expect(await cache.totalCount == 7)
    }

    /// Sweeps repeat; they do not only run once after the start.
    @Test func itSweepsAgainAndAgain() async throws {
        let limit = 10 * weight
        let cache = try fixture.cache { $0.sizeLimit = limit }
        let other = try fixture.cache { $0.isSweepEnabled = false }
        await fixture.clock.waitForSleepers(2)
        for round in 1...4 {
            await store((round * 20)..<(round * 20 + 20), in: other)
            fixture.clock.advance(by: .seconds(29 * 60))
            #expect(fixture.files.count > 10)
            fixture.clock.advance(by: .seconds(60))
            // Both caches sleep again: their sweeps have ended.
            await fixture.clock.waitForSleepers(2)
            #expect(fixture.files.count == 7, "round \(round)")
            #expect(await cache.totalCount == 7)
        }
    }

    /// A sweep also runs as soon as the limit is exceeded, not only at its interval.
    @Test func aWriteBeyondTheLimitMakesRoomAtOnce() async throws {
        let limit = 10 * weight
        let cache = try fixture.cache { $0.sizeLimit = limit }
        await cache.sweep()
        await store(0..<10, in: cache)
        #expect(fixture.files.count == 10)
        await store(10..<11, in: cache)
        #expect(await kept(0..<11, in: cache) == Array(4..<11))
    }

    @Test func theStartMakesRoomToo() async throws {
        await store(0..<20, in: try fixture.cache())
        let limit = 10 * weight
        let cache = try fixture.cache { $0.sizeLimit = limit }
        await fixture.clock.waitForSleepers(1)
        #expect(await cache.totalCount == 7)
    }

    @Test func aLoweredLimitIsEnforced() async throws {
        let cache = try fixture.cache()
        await store(0..<10, in: cache)
        #expect(await cache.totalCount == 10)
        cache.sizeLimit = 5 * weight
        while await cache.totalCount > 3, !Task.isCancelled { await Task.yield() }
        #expect(cache.sizeLimit == 5 * weight)
        #expect(await kept(0..<10, in: cache) == [7, 8, 9])
    }

    @Test func theEntriesReadLastStay() async throws {
        let limit = 10 * weight
        let cache = try fixture.cache { $0.sizeLimit = limit }
        await cache.sweep()
        await store(0..<10, in: cache)
        for key in [3, 0] { #expect(await cache.cachedData(for: "\(key)") == .filled(key, count: size)) }
        await store(10..<11, in: cache)
        #expect(await kept(0..<11, in: cache) == [0, 3, 6, 7, 8, 9, 10])
    }

    /// The order survives a restart: a file's time of use is precise to the minute.
    @Test func theOrderSurvivesARestart() async throws {
        let (limit, weight) = (10 * weight, weight)
        let first = try fixture.cache()
        for key in 0..<10 {
            await store(key..<(key + 1), in: first)
            fixture.clock.advance(by: .seconds(60))
        }
        for key in [3, 0] { _ = await first.cachedData(for: "\(key)") }
        let second = try fixture.cache { $0.sizeLimit = limit - weight }
        await second.sweep()
        #expect(await kept(0..<10, in: second) == [0, 3, 6, 7, 8, 9])
    }

    @Test func aFilesAccessTimeIsUpdatedAtMostOnceAMinute() async throws {
        let cache = try fixture.cache()
        await store(0..<1, in: cache)
        let path = try #require(cache.url(for: "0")?.path(percentEncoded: false))
        func noted() throws -> Date? {
            try FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date
        }
        let written = try #require(try noted())
        fixture.clock.advance(by: .seconds(59))
        _ = await cache.cachedData(for: "0")
        #expect(try noted() == written)
        fixture.clock.advance(by: .seconds(1))
        _ = await cache.cachedData(for: "0")
        let read = try #require(try noted())
        #expect(abs(read.timeIntervalSince(written) - 60) < 0.001)
        fixture.clock.advance(by: .seconds(30))
        _ = await cache.cachedData(for: "0")
        #expect(try noted() == read)
    }

    @Test func entriesUsedByAnotherProcessAreSpared() async throws {
        let limit = 10 * weight
        let cache = try fixture.cache { $0.sizeLimit = limit }
        let other = try fixture.cache { $0.isSweepEnabled = false }
        await cache.sweep()
        await store(0..<10, in: cache)
        fixture.clock.advance(by: .seconds(61))
        for key in [0, 1] { _ = await other.cachedData(for: "\(key)") }
        await store(10..<11, in: cache)
        #expect(await kept(0..<11, in: cache) == [0, 1, 6, 7, 8, 9, 10])
    }

    @Test func whereAllIsInUseElsewhereTheOldestGoes() async throws {
        let limit = 4 * weight
        let cache = try fixture.cache { $0.sizeLimit = limit }
        let other = try fixture.cache { $0.isSweepEnabled = false }
        await cache.sweep()
        await store(0..<4, in: cache)
        fixture.clock.advance(by: .seconds(61))
        for key in [2, 0, 3, 1] { _ = await other.cachedData(for: "\(key)") }
        await store(4..<5, in: cache)
        // This cache knows the entry it has just written as the most recent; its notes on the others are older.
        #expect(await cache.totalCount == 2)
        #expect(await kept(0..<5, in: cache).count == 2)
    }

    /// Fault: each process counted its own files alone until its next scan, half an hour later.
    @Test func processesThatShareAFolderKeepWithinTheLimitTogether() async throws {
        let limit = 32 << 20
        let caches = try [fixture.cache { $0.sizeLimit = limit }, fixture.cache { $0.sizeLimit = limit }]
        for cache in caches { await cache.sweep() }
        for (number, cache) in caches.enumerated() {
            for key in 0..<28 { await cache.storeData(.filled(key, count: 1 << 20), for: "\(number)-\(key)") }
            await cache.flush()
        }
        let observer = try fixture.cache { $0.isSweepEnabled = false }
        repeat { await observer.sweep() } while await observer.totalAllocatedSize > limit
        #expect(await observer.totalCount > 10)
    }

    // MARK: - Leftover files

    /// A killed writer leaves a temporary file. A young one may belong to a second process, and stays.
    @Test func leftoversOfDeadWritersAreDeleted() async throws {
        await store(0..<1, in: try fixture.cache())
        let folder = try #require(fixture.files.first).prefix(9)
        let now = Double(fixture.clock.date()) / 1e9
        for (name, age) in [("\(folder).tmp-1-old", 61.0), ("\(folder).tmp-1-new", 59), ("cache/00/.tmp-2-old", 3600)] {
            let path = try fixture.directory.write(Data("half".utf8), to: name)
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSince1970: now - age)],
                ofItemAtPath: path
            )
        }
        let cache = try fixture.cache()
        #expect(await cache.totalCount == 1)
        #expect(fixture.files.count == 2 && fixture.files.contains("\(folder).tmp-1-new"))
        fixture.clock.advance(by: .seconds(10))
        await cache.sweep()
        #expect(fixture.files.count == 1)
        #expect(await cache.cachedData(for: "0") == .filled(0, count: size))
    }

    @Test func filesThatAreNotOfTheCacheAreLeftAlone() async throws {
        let cache = try fixture.cache { $0.sizeLimit = 1 }
        await store(0..<1, in: cache)
        for name in ["README", "ab/README", "ab/\(String(repeating: "g", count: 64))", "zz/file"] {
            try fixture.directory.write(Data("mine".utf8), to: "cache/\(name)")
        }
        await cache.sweep()
        await cache.removeAll()
        await cache.flush()
        #expect(await cache.totalCount == 0)
        #expect(fixture.files.count == 4)
    }
}
