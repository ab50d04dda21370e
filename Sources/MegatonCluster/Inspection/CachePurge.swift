internal import Foundation
package import Logging
internal import MegatonPipeline
package import MegatonRedis

/// Deletes originals and renditions from a shared cache, and refuses the results of work on these entries that has
/// begun before. Work on an entry that is not stored yet goes on.
package struct CachePurge: Sendable {
    /// Numbers of what was deleted, or would be.
    package struct Result: Sendable, Codable, Equatable {
        package var originals = 0
        package var renditions = 0
        /// Remembered failures.
        package var failures = 0
        /// Size of the data.
        package var bytes = 0
        /// Number of entries that were examined.
        package var scanned = 0
        /// Entries whose source is unknown, as an earlier version stored them: no selection by URL finds them.
        package var withoutSource = 0

        /// Whether nothing was selected.
        package var isEmpty: Bool { originals + renditions + failures == 0 }
    }

    private let caches: [RedisClient]
    private let queue: ShardedQueue
    private let logger: Logger

    /// Maximum number of counted entries that are remembered, about 30 MB.
    private static let countedLimit = 1_000_000

    /// - Parameters:
    ///   - caches: the servers of the cache, all of them.
    ///   - queue: the queue whose workers use the cache.
    package init(caches: [RedisClient], queue: ShardedQueue, logger: Logger) {
        self.caches = caches
        self.queue = queue
        self.logger = logger
    }

    /// Deletes the selected entries in steps of bounded size, and publishes each deletion to near caches.
    ///
    /// - Parameters:
    ///   - isDryRun: whether entries and remembered failures are only counted. Entries that Redis returns twice, as it
    ///     may while its table grows, count once if they are among the first million; failures may count twice.
    ///   - progress: called after each step with the numbers so far.
    /// - Throws: after all other servers, the error of one that could not be changed, or could not be counted.
    package func run(
        _ selection: CacheSelection,
        isDryRun: Bool = false,
        progress: (Result) -> Void = { _ in }
    ) async throws(RedisError) -> Result {
        var (result, failure): (Result, RedisError?) = (Result(), nil)
        // Deleted entries of a scan that began again are not found twice; those that are only counted may be. They are
        // remembered by hashes, of which two are hardly ever equal.
        var counted: Set<Int> = []
        if !isDryRun { failure = await purgeOriginals(of: selection, &result) }
        do throws(RedisError) {
            try await CacheListing(caches: caches).forEachPage { (cache, entries, count) async throws(RedisError) in
                result.scanned += count
                result.withoutSource += entries.count { $0.source == nil }
                var selected = entries.filter { selection.includes($0) }
                if isDryRun {
                    selected = selected.filter { entry in
                        let hash = entry.key.hashValue
                        if counted.count >= Self.countedLimit { return !counted.contains(hash) }
                        return counted.insert(hash).inserted
                    }
                } else {
                    selected = try await purge(selected, at: cache, &result)
                }
                result.add(selected)
                progress(result)
            }
        } catch {
            // Unlike the error about one URL, it says that the other servers were read.
            failure = error
        }
        if isDryRun, let failure { throw failure }
        if selection.hasOriginals {
            let failures = RememberedFailures(caches: caches, queue: queue)
            do throws(RedisError) {
                if isDryRun {
                    result.failures += try await failures.countSources { selection.includes(source: $0) }
                } else {
                    result.failures += try await failures.forgetSources { selection.includes(source: $0) }
                }
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        return result
    }

    /// Deletes originals that the URLs name, which may have a flight and no entry yet, or an entry without its source.
    ///
    /// - Returns: after all other URLs, the error of one whose server could not be changed.
    private func purgeOriginals(of selection: CacheSelection, _ result: inout Result) async -> RedisError? {
        guard selection.hasOriginals, !selection.locations.isEmpty else { return nil }
        let nodes = CacheNodes(caches, logger: logger, statistics: nil)
        var (failure, silent): (RedisError?, Set<Int>) = (nil, [])
        for url in selection.locations {
            let key = CacheKey.original(of: ImageRequest(url: url))
            let node = nodes[key]
            // Each further attempt at a server that is away may take as long as the first.
            if silent.contains(node.index) { continue }
            do throws(RedisError) {
                try await purgeOriginal(key, at: node, &result)
            } catch {
                if error.isTransient { silent.insert(node.index) }
                failure = failure ?? error
            }
        }
        return failure
    }

    private func purgeOriginal(
        _ key: CacheKey,
        at node: CacheNodes.Node,
        _ result: inout Result
    ) async throws(RedisError) {
        let found = try await CacheListing.entries([CacheKeys.entry(key)], at: node.redis)
        let call = InFlightLock.superseding(key, at: nil)
        let reply = try await node.redis.run(
            FlightScripts.supersedeEntry,
            keys: call.keys,
            arguments: call.arguments
        )
        if reply.array?.first?.int == 1 { result.add(found) }
        result.failures += reply.array?.last?.int ?? 0
    }

    /// - Returns: the entries that were deleted; others are gone already.
    private func purge(
        _ entries: [CacheListing.Entry],
        at cache: RedisClient,
        _ result: inout Result
    ) async throws(RedisError) -> [CacheListing.Entry] {
        if entries.isEmpty { return [] }
        let replies = try await cache.run(
            FlightScripts.supersedeEntry,
            calls: entries.map { InFlightLock.superseding($0.cacheKey, at: nil) }
        )
        for case .error(let text) in replies { throw RedisError(reply: text) }
        result.failures += replies.reduce(0) { $0 + ($1.array?.last?.int ?? 0) }
        return zip(entries, replies).filter { $1.array?.first?.int == 1 }.map(\.0)
    }
}

extension CachePurge.Result {
    fileprivate mutating func add(_ entries: [CacheListing.Entry]) {
        originals += entries.count { $0.kind == .original }
        renditions += entries.count { $0.kind == .rendition }
        bytes += entries.reduce(0) { $0 + $1.bytes }
    }
}
