import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import MegatonRedis
import NIOPosix

/// Measures writes to caches and reads from them.
struct CacheBenchmark: Sendable {
    let address: RedisConfiguration
    /// Sizes of the entries, bytes.
    let sizes: [Int]
    /// Time per cache, size and direction.
    let time: Duration
    let concurrency: Int

    /// Largest size, bytes: the default limit of the cache in Redis.
    static let maximumSize = 32 << 20
    /// Bytes of all entries of one size (at least one entry): more than may be waiting for the disk, so that no entry
    /// is replaced before it is written.
    private static let bytes = 64 << 20
    private static let maximumKeys = 65_536

    func run() async throws -> CacheReport {
        let logger = LogOptions.logger("megaton.bench", level: .error)
        let redis = RedisClient(address, role: "cache", group: MultiThreadedEventLoopGroup.singleton, logger: logger)
        defer { redis.close() }
        let folder = try TemporaryDirectory()
        defer { folder.remove() }
        var settings = DataCache.Configuration()
        settings.sizeLimit = 4 << 30
        let disk = try DataCache(
            path: URL(fileURLWithPath: "\(folder.path)/cache"),
            configuration: settings,
            logger: logger
        )
        let memory = MemoryDataCache(costLimit: 4 << 30)
        var report = CacheReport(concurrency: concurrency, rows: [])
        for size in sizes {
            report.rows += try await rows(RedisDataCache(redis: redis, logger: logger), size) {}
            report.rows += try await rows(disk, size) { await disk.flush() }
            report.rows += try await rows(memory, size) {}
        }
        return report
    }

    /// - Parameter settle: returns when all entries are stored.
    private func rows(
        _ cache: any DataCaching,
        _ size: Int,
        _ settle: () async -> Void
    ) async throws -> [CacheReport.Row] {
        let data = Data((0..<size).map { _ in UInt8.random(in: 0...255) })
        let keys = max(1, min(Self.maximumKeys, Self.bytes / size))
        let start = ContinuousClock.now
        let put = await measure { number in
            await cache.storeData(data, for: "\(size)-\(number % keys)")
            return true
        }
        await settle()
        let written = start.duration(to: .now)
        let known = min(keys, put.histogram.count)
        let get = await measure { number in await cache.cachedData(for: "\(size)-\(number % known)")?.count == size }
        return [
            CacheReport.Row(cache.layerName, "put", size, put.histogram, misses: 0, in: written),
            CacheReport.Row(cache.layerName, "get", size, get.histogram, misses: get.misses, in: get.elapsed),
        ]
    }

    /// Work completed within the time.
    private struct Done: Sendable {
        var histogram = LatencyHistogram()
        var misses = 0
        var elapsed: Duration = .zero
    }

    /// Repeats the work in several tasks until the time is over; each task does it at least once.
    ///
    /// - Parameter work: receives an increasing number, and returns whether it found its entry.
    private func measure(_ work: @escaping @Sendable (Int) async -> Bool) async -> Done {
        let numbers = SharedCounter()
        let start = ContinuousClock.now
        let end = start + time
        var all = await withTaskGroup(of: Done.self) { group in
            for _ in 0..<concurrency {
                group.addTask {
                    var done = Done()
                    repeat {
                        let begin = ContinuousClock.now
                        let isFound = await work(numbers.next())
                        done.histogram.add(Int(begin.duration(to: .now).inSeconds * 1e6))
                        if !isFound { done.misses += 1 }
                    } while ContinuousClock.now < end
                    return done
                }
            }
            return await group.reduce(into: Done()) { all, done in
                all.histogram.merge(done.histogram)
                all.misses += done.misses
            }
        }
        all.elapsed = start.duration(to: .now)
        return all
    }
}
