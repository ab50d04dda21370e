internal import Logging
package import MegatonPipeline
internal import MegatonRedis

// Lookups for images that are made step by step outside of jobs: cached data may save steps, and nothing is locked.
extension InFlightLock {
    /// Fresh entries of these keys, in one round trip, and one more for every four chunks that an entry has beyond its
    /// first.
    package func lookUp(_ keys: [CacheKey]) async -> [CachedData?] { await look(keys, findsStale: false) }

    /// Entries of these keys as in `lookUp(_:)`, stale ones included.
    package func lookUpStale(_ keys: [CacheKey]) async -> [CachedData?] { await look(keys, findsStale: true) }

    private func look(_ keys: [CacheKey], findsStale: Bool) async -> [CachedData?] {
        await cache.nodes.perform(keys, by: \.digest) { [self] node, keys in
            await look(keys, findsStale: findsStale, at: node)
        }
    }

    private func look(_ keys: [CacheKey], findsStale: Bool, at node: CacheNodes.Node) async -> [CachedData?] {
        do {
            let replies = try await node.redis.run(
                FlightScripts.lookUpEntry,
                calls: keys.map { ([CacheKeys.entry($0)], [findsStale ? "1" : "0"]) }
            )
            var found: [CachedData?] = []
            for (key, reply) in zip(keys, replies) { found.append(try await entry(key, reply: reply, at: node)) }
            statistics?.add("hits", found.count { $0 != nil })
            statistics?.add("misses", found.count { $0 == nil })
            return found
        } catch {
            statistics?.add("fail_open", keys.count)
            logger.debug("the cache failed; this lookup finds nothing", metadata: [LogKey.error: "\(error)"])
            return keys.map { _ in nil }
        }
    }

    private func entry(
        _ key: CacheKey,
        reply: RedisValue,
        at node: CacheNodes.Node
    ) async throws(RedisError) -> CachedData? {
        if case .error(let text) = reply { throw RedisError(reply: text) }
        guard let fields = reply.array, fields.count == 3 else { return nil }
        var entry = try await cache.read(CacheKeys.entry(key), at: node, header: fields[1], first: fields[2])
        let left = Double(fields[0].int ?? 0) / 1000
        // A stale entry keeps its lifetime, as in `begin`.
        if left > 0 { entry?.metadata.lifetime = left } else { entry?.staleness = -left }
        return entry
    }

    /// Stores an entry as the leader of its flight. If another caller leads, its entry is kept; a fresh entry is kept
    /// too.
    @discardableResult
    package func store(_ entry: CachedData, for key: CacheKey) async -> Bool {
        // No remembered failure counts: the entry is newer.
        switch await begin([key], after: [], maximumFailureAge: .zero).first {
        case .lead(let lead)?, .stale(_, let lead?)?: return await finish([(lead, entry)]).contains(key)
        case .wait, .hit, .stale, .failed, nil: break
        }
        return false
    }
}
