internal import Foundation
package import MegatonRedis

/// The first entries of a shared cache in some order, found in one scan with little memory.
package struct CacheRanking: Sendable {
    /// An order of entries.
    package enum Order: String, Sendable, CaseIterable {
        /// The largest first.
        case bytes
        /// Those first that were read most often lately. Redis counts that with an LFU policy only.
        case hits
        /// The oldest first.
        case age

        fileprivate func value(_ entry: CacheListing.Entry) -> Double {
            switch self {
            case .bytes: Double(entry.bytes)
            case .hits: Double(entry.hits ?? 0)
            case .age: entry.age
            }
        }
    }

    private let caches: [RedisClient]

    /// - Parameter caches: the servers of the cache.
    package init(caches: [RedisClient]) { self.caches = caches }

    /// - Parameters:
    ///   - limit: maximum number of entries.
    ///   - selection: entries that are ranked; nil ranks all.
    ///   - progress: called after each step with the number of entries examined.
    /// - Throws: if Redis cannot be read, or does not count reads.
    package func first(
        _ limit: Int,
        by order: Order,
        of selection: CacheSelection? = nil,
        progress: (Int) -> Void = { _ in }
    ) async throws(RedisError) -> [CacheListing.Entry] {
        var best: [String: CacheListing.Entry] = [:]
        var scanned = 0
        func trim(to count: Int) {
            guard best.count > count else { return }
            let sorted = Self.sorted(best.values, by: order).prefix(limit)
            best = Dictionary(sorted.map { ($0.key, $0) }, uniquingKeysWith: { first, _ in first })
        }
        try await CacheListing(caches: caches).forEachPage { (cache, entries, count) async throws(RedisError) in
            var entries = entries.filter { selection?.includes($0) ?? true }
            if order == .hits { entries = try await Self.counted(entries, at: cache) }
            for entry in entries { best[entry.key] = entry }
            // Sorted once in a while: that costs less than a place in the order for each.
            trim(to: limit + 5000)
            scanned += count
            progress(scanned)
        }
        trim(to: limit)
        return Self.sorted(best.values, by: order)
    }

    private static func sorted(
        _ entries: some Sequence<CacheListing.Entry>,
        by order: Order
    ) -> [CacheListing.Entry] {
        entries.sorted { one, other in
            let (first, second) = (order.value(one), order.value(other))
            return first == second ? one.key < other.key : first > second
        }
    }

    /// The entries with the numbers of their reads.
    private static func counted(
        _ entries: [CacheListing.Entry],
        at cache: RedisClient
    ) async throws(RedisError) -> [CacheListing.Entry] {
        let replies = try await cache.pipeline(
            entries.map { ["OBJECT", "FREQ", .string($0.name)] }
        )
        var counted: [CacheListing.Entry] = []
        for (var entry, reply) in zip(entries, replies) {
            if case .error(let text) = reply {
                // The entry is gone.
                if text.contains("no such key") { continue }
                throw noCounts(RedisError(reply: text), at: cache)
            }
            entry.hits = reply.int
            counted.append(entry)
        }
        return counted
    }

    private static func noCounts(_ error: RedisError, at cache: RedisClient) -> RedisError {
        let advice =
            error.isCommandRefused
            ? "Allow the user +object|freq"
            : "Redis counts reads only with maxmemory-policy allkeys-lfu or volatile-lfu"
        return RedisError(
            error.code,
            "\(cache.configuration) does not say how often entries are read: \(error.message) \(advice), or choose "
                + "another order than hits."
        )
    }
}
