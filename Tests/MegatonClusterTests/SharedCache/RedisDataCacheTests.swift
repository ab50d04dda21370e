import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOCore
import NIOPosix
import Testing

@testable import MegatonCluster

@Suite(.timeLimit(.minutes(2))) struct RedisDataCacheTests {
    /// Fault: a worker that died after writing the bytes and before setting their expiry left a key that was never
    /// deleted.
    @Test func whateverArrivesOfAPieceIsForgottenAgain() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = server.client()
            defer { client.close() }
            let chunks = [ByteBuffer(string: "one"), ByteBuffer(string: "two")]
            let commands = RedisDataCache.writing(chunks[...], to: "piece")
            for count in 1...commands.count {
                // Its connection ends with the worker.
                let worker = server.client("worker")
                _ = try await worker.pipeline(Array(commands.prefix(count)))
                worker.close()
                while try await client.send(["CLIENT", "LIST"]).string?.contains("name=megaton:worker") == true {
                    await Task.yield()
                }
                #expect(try await client.send(["PTTL", "piece"]).int != -1, "after \(count) of its commands")
            }
            #expect(try await client.send(["HMGET", "piece", "0", "1"]).array?.map(\.string) == ["one", "two"])
        }
    }

    /// Fault: a lookup that Redis refused counted as a plain miss.
    @Test func aRefusedLookupIsAnErrorAndAMissForItsKeyAlone() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let statistics = StatisticsRecorder()
            let cache = RedisDataCache(
                .init(),
                servers: [fixture.server.configuration],
                group: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                statistics: statistics
            )
            defer { cache.close() }
            await cache.storeData(Data("b".utf8), for: "b")
            let names = try await fixture.redis.send(["KEYS", "megaton:d:*"]).array?.compactMap(\.string) ?? []
            let name = try #require(names.first)
            try await fixture.redis.send(["SET", .string(name), "no hash"])
            await cache.storeData(Data("a".utf8), for: "a")
            let found = await cache.cachedData(for: ["a", "b", "c"])
            #expect(found == [Data("a".utf8), nil, nil])
            try await statistics.flush(to: fixture.queue)
            let errors = try await fixture.redis.send(["HGET", .string(fixture.keys.stat), "cache_errors"]).int
            #expect(errors == 1)
        }
    }

    private static func bytes(_ count: Int) -> Data { Data((0..<count).map { UInt8(truncatingIfNeeded: $0 / 7) }) }

    /// Fault: large originals of many jobs were in memory, uncounted by any budget, while the jobs waited for a render
    /// slot.
    @Test func largeEntriesAreReadIntoFiles() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = server.client()
            defer { client.close() }
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let cache = RedisDataCache(redis: client, logger: logger)
            for count in [EntrySpool.threshold, EntrySpool.threshold + 1] {
                let data = Self.bytes(count)
                await cache.storeData(data, for: "a")
                let found = try #require(await cache.cachedData(for: "a"))
                #expect(found == data)
                #expect(SpoolFile.bytes(of: found) == (count > EntrySpool.threshold ? count : 0))
            }
            var nowhere = RedisDataCache.Configuration()
            nowhere.temporaryDirectory = URL(fileURLWithPath: "/proc/none")
            let other = RedisDataCache(nowhere, redis: client, logger: logger)
            let found = try #require(await other.cachedData(for: "a"), "without a place for files, in memory")
            #expect(found.count == EntrySpool.threshold + 1 && SpoolFile.bytes(of: found) == 0)
        }
    }

    /// Fault: a process with a lower limit deleted, as damaged, what another one had stored.
    @Test func anEntryAboveTheLimitOfThisProcessIsAMissAndStays() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = server.client()
            defer { client.close() }
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let cache = RedisDataCache(redis: client, logger: logger)
            var low = RedisDataCache.Configuration()
            low.maximumEntrySize = 9
            let other = RedisDataCache(low, redis: client, logger: logger)
            for count in [9, 10] {
                await cache.storeData(Self.bytes(count), for: "a")
                #expect(await other.cachedData(for: "a") == (count > 9 ? nil : Self.bytes(count)))
                #expect(await cache.cachedData(for: "a") == Self.bytes(count))
            }
        }
    }

    @Test func entriesInFilesAreVerified() async throws {
        let data = Self.bytes(CacheEntry.chunkSize + 5)
        let metadata = CachedData.Metadata(lifetime: 1)
        let chunks = CacheEntry.chunks(of: data)
        var spool = try #require(await EntrySpool(in: nil))
        for chunk in chunks {
            let isWritten = await spool.append([chunk])
            #expect(isWritten)
        }
        let header = CacheEntry.Header(length: data.count, checksum: Checksum.xxh3(data), metadata: metadata)
        let entry = try #require(try await spool.entry(header))
        #expect(entry.data == data && entry.checksum == header.checksum)
        #expect(SpoolFile.bytes(of: entry.data) == data.count)
        let wrong = CacheEntry.Header(length: data.count, checksum: Checksum.xxh3(Data()), metadata: metadata)
        let other = try await spool.entry(wrong)
        #expect(other == nil)
        let long = CacheEntry.Header(length: data.count + 1, checksum: Checksum.xxh3(data), metadata: metadata)
        let short = try await spool.entry(long)
        #expect(short == nil)
    }

    @Test func theErrorOfACommandIsReportedRatherThanThatOfItsTransaction() {
        let within = RedisValue.array([.integer(1), .error("WRONGTYPE it is no hash")])
        #expect(throws: RedisError(reply: "WRONGTYPE it is no hash")) { () throws in
            try RedisDataCache.check([.status("OK"), .status("QUEUED"), within])
        }
        #expect(throws: RedisError(reply: "OOM full")) { () throws in
            try RedisDataCache.check([.status("OK"), .error("OOM full"), within])
        }
        #expect(throws: Never.self) { () throws in try RedisDataCache.check([.status("OK"), .array([.integer(1)])]) }
    }

    /// Errors of commands within a transaction are noticed.
    @Test func aRefusedChunkIsReported() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = server.client()
            defer { client.close() }
            try await client.send(["SET", "piece", "no hash"])
            let cache = RedisDataCache(redis: client, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            await #expect {
                try await cache.writeChunks([ByteBuffer(string: "one")], to: "piece", at: cache.nodes.all[0])
            } throws: {
                "\($0)".contains("WRONGTYPE")
            }
            try await client.send(["DEL", "piece"])
            try await client.send(["CONFIG", "SET", "maxmemory", "1"])
            await #expect {
                try await cache.writeChunks([ByteBuffer(string: "one")], to: "piece", at: cache.nodes.all[0])
            } throws: {
                ($0 as? RedisError)?.code == .outOfMemory
            }
            #expect(try await client.send(["EXISTS", "piece"]).int == 0)
        }
    }
}
