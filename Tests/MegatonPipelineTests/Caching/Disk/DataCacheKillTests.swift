import Foundation
import Logging
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

/// The state that a process killed while it writes leaves to the next process.
@Suite(.timeLimit(.minutes(2))) struct DataCacheKillTests {
    private let directory: TestDirectory
    private let path: String

    init() throws {
        directory = try TestDirectory()
        path = directory.path + "/cache"
    }

    private func isTemporary(_ file: String) -> Bool { file.contains("/.tmp-") }

    /// Kills a writer within a file, once `entries` entries exist and the first was replaced `replaced` times.
    private func killWriter(entries: Int, replaced: Int) async throws {
        let writer = try ProgramUnderTest.cacheWriter([path])
        let first = DataCacheFolder(path: path).path(of: DataCacheFileName("0"))
        var inodes: Set<UInt64> = []
        while true {
            try #require(writer.isRunning, "\(writer.errors)")
            var status = stat()
            if stat(first, &status) == 0 { inodes.insert(UInt64(status.st_ino)) }
            if inodes.count > replaced, directory.files.count(where: { !isTemporary($0) }) >= entries {
                // A stopped process does not change its files while they are examined.
                writer.send(SIGSTOP)
                if try await isStopped(writer), directory.files.contains(where: isTemporary) { break }
                writer.send(SIGCONT)
            }
            await Task.yield()
        }
        writer.send(SIGKILL)
        #expect(await writer.ending().code == 128 + SIGKILL)
    }

    /// Returns when all threads have stopped (proc(5): state `T`).
    private func isStopped(_ process: ProgramUnderTest) async throws -> Bool {
        let tasks = "/proc/\(process.pid)/task"
        while process.isRunning {
            let threads = try FileManager.default.contentsOfDirectory(atPath: tasks)
            let states = threads.map { thread in
                // Threads may have ended since; the remaining ones decide.
                let line = try? String(contentsOfFile: "\(tasks)/\(thread)/stat", encoding: .utf8)
                return line?.split(separator: ")").last?.split(separator: " ").first ?? "T"
            }
            if states.allSatisfy({ $0 == "T" }) { return true }
            await Task.yield()
        }
        return false
    }

    /// - Parameter age: nanoseconds since the killed process died.
    private func open(age: Int64 = 0) throws -> DataCache {
        let clock = TimeSource(ContinuousClock())
        var configuration = DataCache.Configuration()
        configuration.isSweepEnabled = false
        return try DataCache(
            DataCacheFolder(path: path),
            configuration: configuration,
            time: TimeSource(ContinuousClock()) { clock.date() + age },
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    @Test(arguments: [(1, 0), (CacheWriterEntry.keyCount / 2, 0), (CacheWriterEntry.keyCount, 1)])
    func entriesOfAKilledProcessAreWholeOrAbsent(entries: Int, replaced: Int) async throws {
        try await killWriter(entries: entries, replaced: replaced)
        let files = directory.files
        let whole = files.filter { !isTemporary($0) }
        #expect(whole.count < files.count, "it was killed in the middle of a file")

        let cache = try open(age: DataCacheFolder.temporaryLifetime + 1)
        await cache.sweep()
        #expect(directory.files == whole, "what was begun is swept, and nothing else")
        let sizes = try whole.map { name in
            try FileManager.default.attributesOfItem(atPath: "\(directory.path)/\(name)")[.size] as? Int ?? 0
        }
        #expect(await cache.totalCount == whole.count)
        #expect(await cache.totalSize == sizes.reduce(0, +))

        var steps: [Int] = []
        for key in 0..<CacheWriterEntry.keyCount {
            guard let data = await cache.cachedData(for: "\(key)") else { continue }
            let entry = try #require(CacheWriterEntry(data), "\(key): \(data.count) bytes, which are no entry")
            #expect(entry.key == "\(key)")
            steps.append(entry.step)
        }
        #expect(steps.count == whole.count, "each file is an entry")
        #expect(steps.count >= entries)
        // Consecutive, in the order in which they were stored: only the latest may be missing.
        let latest = try #require(steps.max())
        let oldest = max(0, latest - CacheWriterEntry.keyCount + 1)
        #expect(steps.sorted() == Array(oldest...latest))
        #expect(cache.errorCounts.isEmpty)
        await cache.flush()
    }

    /// The order of use survives the process, and reading an entry counts as a use.
    @Test func theOrderOfUseSurvivesAKilledProcess() async throws {
        try await killWriter(entries: CacheWriterEntry.keyCount, replaced: 0)
        let folder = DataCacheFolder(path: path)
        // Not read through a cache, which would record each use.
        var entries: [CacheWriterEntry] = []
        for key in 0..<CacheWriterEntry.keyCount {
            guard case .found(let data, _) = try folder.read(DataCacheFileName("\(key)")) else { continue }
            entries.append(try #require(CacheWriterEntry(data)))
        }
        entries.sort { $0.step < $1.step }
        try #require(entries.count == CacheWriterEntry.keyCount)

        let cache = try open()
        await cache.sweep()
        #expect(await cache.cachedData(for: entries[0].key) == entries[0].data)
        cache.sizeLimit = await cache.totalAllocatedSize / 2
        await cache.sweep()
        #expect(await cache.totalAllocatedSize <= cache.sizeLimit)
        var kept: [Int] = []
        for entry in entries where await cache.containsData(for: entry.key) { kept.append(entry.step) }
        #expect(kept.first == entries[0].step, "it was read a moment ago")
        #expect(kept.count > 2 && Array(kept.dropFirst()) == entries.suffix(kept.count - 1).map(\.step))
        #expect(cache.errorCounts.isEmpty)
        await cache.flush()
    }
}
