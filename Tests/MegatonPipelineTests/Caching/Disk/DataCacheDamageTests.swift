import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline

/// Readers never see a partial file; the effects of kills, power cuts and disk errors on a cache.
@Suite(.timeLimit(.minutes(2)), .diskCaches) struct DataCacheDamageTests {
    private let fixture: DataCacheFixture

    init() throws { fixture = try DataCacheFixture() }

    private func file(_ key: String, of cache: DataCache) throws -> URL { try #require(cache.url(for: key)) }

    /// A reader of a key that is rewritten again and again gets one of the entries, whole; so does a reader of the
    /// file itself.
    @Test func aReaderNeverSeesATornFile() async throws {
        let cache = try fixture.cache()
        let reader = try fixture.cache { $0.isSweepEnabled = false }
        await cache.storeData(.filled(0, count: Self.length(0)), for: "a")
        await cache.flush()
        let file = try file("a", of: cache)
        let end = Switch()
        let counts = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<2 {
                group.addTask {
                    var reads = 0
                    while !end.isSet || reads == 0 {
                        let data = await reader.cachedData(for: "a")
                        #expect(data.map(Self.isOneOfTheEntries) == true)
                        let raw = try? Data(contentsOf: file)
                        let length = raw.flatMap { DataCacheBlob.length($0.prefix(DataCacheBlob.headerSize)) }
                        #expect(length.map { $0 + DataCacheBlob.headerSize } == raw?.count)
                        reads += 1
                        await Task.yield()
                    }
                    return reads
                }
            }
            for round in 0..<400 {
                await cache.storeData(.filled(round, count: Self.length(round)), for: "a")
                await cache.flush(for: "a")
            }
            end.set()
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(counts.allSatisfy { $0 > 0 } && reader.errorCounts.isEmpty && cache.errorCounts.isEmpty)
    }

    private static func length(_ round: Int) -> Int { 1 + (round * 7919) % 200_000 }

    private static func isOneOfTheEntries(_ data: Data) -> Bool {
        guard let first = data.first, data.allSatisfy({ $0 == first }) else { return false }
        return stride(from: Int(first), to: 400, by: 256).contains { length($0) == data.count }
    }

    /// A power cut may truncate a file anywhere.
    @Test func aFileThatIsCutShortIsAMissAndGoes() async throws {
        let cache = try fixture.cache()
        await cache.storeData(.filled(7, count: 50), for: "a")
        await cache.flush()
        let file = try file("a", of: cache)
        let whole = try Data(contentsOf: file)
        for length in 0..<whole.count {
            try whole.prefix(length).write(to: file)
            #expect(await cache.cachedData(for: "a") == nil, "\(length) bytes")
            await cache.flush()
            #expect(!FileManager.default.fileExists(atPath: file.path(percentEncoded: false)), "\(length) bytes")
        }
        try (whole + Data([0])).write(to: file)
        #expect(await cache.cachedData(for: "a") == nil)
        await cache.flush()
        try whole.write(to: file)
        #expect(await cache.cachedData(for: "a") == .filled(7, count: 50))
        #expect(fixture.log.recorded.count == 1, "said once, counted each time")
        #expect(cache.errorCounts.values.reduce(0, +) == whole.count + 1)
    }

    @Test func aFileWithOtherBytesIsAMissAndGoes() async throws {
        let cache = try fixture.cache()
        await cache.storeData(.filled(7, count: 50), for: "a")
        await cache.flush()
        let file = try file("a", of: cache)
        let whole = try Data(contentsOf: file)
        for index in 0..<whole.count {
            var damaged = whole
            damaged[index] ^= 1 << UInt8(index % 8)
            try damaged.write(to: file)
            #expect(await cache.cachedData(for: "a") == nil, "byte \(index)")
            await cache.flush()
            #expect(!FileManager.default.fileExists(atPath: file.path(percentEncoded: false)), "byte \(index)")
        }
        // Some file systems leave zeros if a file's length was stored and its bytes were not.
        try Data(count: whole.count).write(to: file)
        #expect(await cache.cachedData(for: "a") == nil)
        await cache.flush()
        #expect(await cache.totalCount == 0)
    }

    /// Fault: the reader waited until the writes that were staged before were on the disk, however slow it was.
    @Test func aReaderOfADamagedFileDoesNotWaitForTheDisk() async throws {
        let cache = try fixture.cache()
        await cache.sweep()
        for key in ["a", "b"] { await cache.storeData(.filled(1), for: key) }
        await cache.flush()
        for key in ["a", "b"] { try Data("damaged".utf8).write(to: file(key, of: cache)) }
        fixture.hold()
        await cache.storeData(.filled(2), for: "slow")
        for _ in 0..<2 { #expect(await cache.cachedData(for: ["a", "b"]) == [nil, nil]) }
        #expect(await !cache.containsData(for: "a"))
        #expect(cache.errorCounts.values.reduce(0, +) == 2, "the second time it is known")
        await cache.storeData(.filled(3), for: "b")
        fixture.release()
        await cache.flush()
        #expect(await cache.cachedData(for: ["a", "b", "slow"]) == [nil, .filled(3), .filled(2)])
        #expect(fixture.files.count == 2)
    }

    @Test func aFileUnderAnotherNameIsAMiss() async throws {
        let cache = try fixture.cache()
        for (number, key) in ["a", "b"].enumerated() { await cache.storeData(.filled(number), for: key) }
        await cache.flush()
        let (one, two) = (try file("a", of: cache), try file("b", of: cache))
        try Data(contentsOf: one).write(to: two)
        #expect(await cache.cachedData(for: ["a", "b"]) == [.filled(0), nil])
    }

    /// The state that `kill -9` leaves in the middle of writes: some entries, a temporary file, nothing of the staged
    /// data. (Only a power cut can leave a file that was renamed before its bytes were on the disk.)
    @Test func theStateLeftByAKilledWriterIsHarmless() async throws {
        let killed = try fixture.cache()
        for key in 0..<10 { await killed.storeData(.filled(key), for: "\(key)") }
        await killed.flush()
        fixture.hold()
        for key in 10..<15 { await killed.storeData(.filled(key), for: "\(key)") }
        let cut = try file("3", of: killed)
        try Data(contentsOf: cut).prefix(60).write(to: cut)
        try Data().write(to: file("4", of: killed))
        await killed.storeData(.filled(99), for: "0")

        fixture.clock.advance(by: .seconds(3600))
        let next = try fixture.cache()
        for key in 0..<15 {
            let expected: Data? = key < 10 && key != 3 && key != 4 ? .filled(key) : nil
            #expect(await next.cachedData(for: "\(key)") == expected, "\(key)")
        }
        await next.flush()
        #expect(await next.totalCount == 8)
        fixture.release()
        await killed.flush()
    }

    // MARK: - Disks

    @Test(arguments: [ENOSPC, EDQUOT]) func aFullDiskDropsEntriesAndIsSaidOnceAMinute(code: Int32) async throws {
        let cache = try fixture.cache()
        await cache.storeData(.filled(1), for: "a")
        await cache.flush()
        fixture.setError(code)
        for key in ["a", "b", "c"] {
            await cache.storeData(.filled(2), for: key)
            #expect(await cache.cachedData(for: key).map { $0 == .filled(2) } != false)
            await cache.flush()
        }
        #expect(await cache.cachedData(for: ["a", "b", "c"]) == [nil, nil, nil], "nor what was there before")
        #expect(fixture.files.isEmpty, "no temporary file either")
        #expect(fixture.log.recorded.count == 1 && fixture.log.recorded[0].contains("disk is full"))
        #expect(cache.errorCounts.values.reduce(0, +) == 3)
        fixture.clock.advance(by: .seconds(60))
        await cache.storeData(.filled(2), for: "d")
        await cache.flush()
        #expect(fixture.log.recorded.count == 2 && fixture.log.recorded[1].contains("cache.dropped=3"))
        fixture.setError(0)
        await cache.storeData(.filled(3), for: "a")
        await cache.flush()
        #expect(await cache.cachedData(for: "a") == .filled(3))
    }

    @Test func otherErrorsAreSaidOnceAndCounted() async throws {
        let cache = try fixture.cache()
        fixture.setError(EIO)
        for key in 0..<5 { await cache.storeData(.filled(key), for: "\(key)") }
        await cache.flush()
        #expect(fixture.log.recorded.count == 1)
        #expect(cache.errorCounts == ["write: Input/output error": 5])
        fixture.clock.advance(by: .seconds(3600))
        await cache.storeData(.filled(6), for: "6")
        await cache.flush()
        #expect(fixture.log.recorded.count == 1 && cache.errorCounts == ["write: Input/output error": 6])
    }

    @Test func linksAndFoldersInTheWayAreMisses() async throws {
        let cache = try fixture.cache()
        let (link, folder) = (try file("link", of: cache), try file("folder", of: cache))
        for file in [link, folder] {
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(),
                withIntermediateDirectories: true
            )
        }
        try fixture.directory.write(Data("secret".utf8), to: "secret")
        try FileManager.default.createSymbolicLink(
            atPath: link.path(percentEncoded: false),
            withDestinationPath: "\(fixture.directory.path)/secret"
        )
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        for _ in 0..<2 { #expect(await cache.cachedData(for: ["link", "folder"]) == [nil, nil]) }
        await cache.storeData(.filled(1), for: "link")
        await cache.storeData(.filled(1), for: "folder")
        await cache.flush()
        #expect(await cache.cachedData(for: ["link", "folder"]) == [.filled(1), nil], "a link is replaced")
        #expect(try Data(contentsOf: URL(fileURLWithPath: "\(fixture.directory.path)/secret")) == Data("secret".utf8))
        #expect(cache.errorCounts["open: Too many levels of symbolic links"] == 2)
    }

    @Test func aFileInThePlaceOfAFolderIsSaid() async throws {
        let cache = try fixture.cache()
        let folder = try file("a", of: cache).deletingLastPathComponent()
        try Data().write(to: URL(fileURLWithPath: String(folder.path(percentEncoded: false).dropLast())))
        await cache.storeData(.filled(1), for: "a")
        await cache.flush()
        await cache.sweep()
        #expect(await cache.cachedData(for: "a") == nil)
        #expect(cache.errorCounts.count == 2, "\(cache.errorCounts)")
        await cache.storeData(.filled(1), for: "b")
        await cache.flush()
        #expect(await cache.cachedData(for: "b") == .filled(1))
    }
}
