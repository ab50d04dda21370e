internal import Foundation
internal import Logging
internal import MegatonPipeline
internal import MegatonRedis
import Synchronization

/// Finds sources that several of the last admitted jobs name, and marks their originals as fetched before, so that the
/// first fetch stores the original for the others (see `touchOriginal.lua`).
///
/// The leader notes jobs when they are admitted, which costs it a lookup in a table; only sources that repeat cost the
/// cache a command. Admission never waits for the cache: without the mark, a source is fetched twice.
final class RepeatedSources: Sendable {
    fileprivate struct State {
        /// The last jobs, by the hash of their sources, in a ring.
        var ring: [Int] = []
        var next = 0
        /// Number of jobs in the ring by the hash of their source.
        var counts: [Int: Int] = [:]
        /// Originals to be marked, by the index of their server.
        var unmarked: [Int: Set<CacheKey>] = [:]
        /// Servers at which a task marks originals.
        var marking: Set<Int> = []
    }

    private let cache: RedisDataCache
    private let window: Int
    private let logger: Logger
    private let state = Mutex(State())

    /// Maximum number of originals that wait to be marked at one server; further ones are not.
    private static let limit = 16_384
    /// Time to live of a mark: the jobs of a window are done in about two seconds, if nothing delays them.
    private static let lifetime: Duration = .seconds(120)
    /// Number of originals that are marked in one round trip.
    private static let page = 512

    /// - Parameters:
    ///   - cache: closed with this object's owner.
    ///   - window: number of jobs that may be admitted at a time: more than that are not remembered.
    init(cache: RedisDataCache, window: Int, logger: Logger) {
        self.cache = cache
        self.window = max(1, window)
        self.logger = logger
    }

    func close() { cache.close() }

    /// Notes admitted jobs.
    func note(_ jobs: [Job]) {
        let sources = jobs.filter(Self.isRemote)
        let idle = state.withLock { state in
            for job in sources where state.add(Self.hash(job), window: window) {
                guard let key = job.original else { continue }
                let index = cache.nodes[key].index
                guard state.unmarked[index, default: []].count < Self.limit else { continue }
                state.unmarked[index, default: []].insert(key)
            }
            let idle = Set(state.unmarked.keys).subtracting(state.marking)
            state.marking.formUnion(idle)
            return idle
        }
        // Unstructured, so that admission does not wait, and one for each server, so that none waits for one that
        // hangs. Bounded by the time-outs of the cache, and one at a time.
        for index in idle { Task { await mark(at: cache.nodes.all[index]) } }
    }

    private func mark(at node: CacheNodes.Node) async {
        while true {
            let keys = state.withLock { $0.takePage(of: node.index, atMost: Self.page) }
            if keys.isEmpty { return }
            do throws(RedisError) {
                // Also those that are refused, by a cache that is full, need no second attempt.
                _ = try await node.redis.pipeline(keys.map(Self.mark))
            } catch {
                logger.debug(
                    "originals of repeated sources cannot be marked in the cache",
                    metadata: [LogKey.error: "\(error)"]
                )
            }
        }
    }

    private static func mark(_ original: CacheKey) -> RedisCommand {
        ["SET", .string(CacheKeys.touch(original)), "", "NX", "PX", .int(lifetime.wholeMilliseconds)]
    }

    /// Local sources are never stored in the cache.
    private static func isRemote(_ job: Job) -> Bool {
        ["http:", "https:", "s3:"].contains { job.source.prefix($0.count).lowercased() == $0 }
    }

    private static func hash(_ job: Job) -> Int {
        var hasher = Hasher()
        hasher.combine(job.source)
        hasher.combine(job.credential)
        return hasher.finalize()
    }
}

extension RepeatedSources.State {
    /// Adds a job, in the place of the oldest one if the ring is full.
    ///
    /// - Returns: whether an earlier job in the ring has the same source.
    fileprivate mutating func add(_ source: Int, window: Int) -> Bool {
        if ring.count < window {
            ring.append(source)
        } else {
            let oldest = ring[next]
            let left = (counts[oldest] ?? 1) - 1
            counts[oldest] = left > 0 ? left : nil
            ring[next] = source
            next = (next + 1) % window
        }
        let count = (counts[source] ?? 0) + 1
        counts[source] = count
        return count > 1
    }

    /// Removes originals that are to be marked at a server. If there is none, its task ends.
    fileprivate mutating func takePage(of index: Int, atMost limit: Int) -> [CacheKey] {
        let keys = Array((unmarked[index] ?? []).prefix(limit))
        unmarked[index]?.subtract(keys)
        if unmarked[index]?.isEmpty == true { unmarked[index] = nil }
        if keys.isEmpty { marking.remove(index) }
        return keys
    }
}
