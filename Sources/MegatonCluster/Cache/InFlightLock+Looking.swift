internal import Logging
public import MegatonPipeline
internal import MegatonRedis

// For images that are made step by step, outside of jobs: what is there may save steps, and nothing is locked for them.
extension InFlightLock {
    /// What is fresh of these keys, in one round trip, and one more for each entry above a chunk.
    public func lookUp(_ keys: [CacheKey]) async -> [CachedData?] { await look(keys, findsStale: false) }

    /// As `lookUp(_:)`, with what is no longer fresh.
    public func lookUpStale(_ keys: [CacheKey]) async -> [CachedData?] { await look(keys, findsStale: true) }

    private func look(_ keys: [CacheKey], findsStale: Bool) async -> [CachedData?] {
        do {
            let replies = try await cache.redis.run(
                FlightScripts.look,
                calls: keys.map { ([CacheNames.entry($0)], [findsStale ? "1" : "0"]) }
            )
            var found: [CachedData?] = []
            for (key, reply) in zip(keys, replies) { found.append(try await entry(key, reply)) }
            statistics?.add("hits", found.count { $0 != nil })
            statistics?.add("misses", found.count { $0 == nil })
            return found
        } catch {
            statistics?.add("fail_open", keys.count)
            logger.debug("no cache: nothing is found", metadata: [LogKey.error: "\(error)"])
            return keys.map { _ in nil }
        }
    }

    private func entry(_ key: CacheKey, _ reply: RedisValue) async throws(RedisError) -> CachedData? {
        if case .error(let text) = reply { throw RedisError(reply: text) }
        guard let fields = reply.array, fields.count == 3 else { return nil }
        var entry = try await cache.read(CacheNames.entry(key), header: fields[1], first: fields[2])
        let left = Double(fields[0].int ?? 0) / 1000
        // A stale one keeps its lifetime, as of `begin`.
        if left > 0 { entry?.metadata.lifetime = left } else { entry?.staleness = -left }
        return entry
    }

    /// Keeps an entry as the leader of its flight. Where somebody else leads, his is kept; where there is a fresh one, that.
    @discardableResult
    public func store(_ entry: CachedData, for key: CacheKey) async -> Bool {
        // It is newer than any failure that is remembered.
        switch await begin([key], after: [], maximumFailureAge: .zero).first {
        case .lead(let lead)?, .stale(_, let lead?)?: return await finish([(lead, entry)]).contains(key)
        case .wait(let flight)?: await abandon(flight)
        case .hit, .stale, .failed, nil: break
        }
        return false
    }
}
