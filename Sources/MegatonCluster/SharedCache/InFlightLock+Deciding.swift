internal import Logging
internal import MegatonPipeline
internal import MegatonRedis

// The decision for a caller, by the reply of the script for its key.
extension InFlightLock {
    /// Facts about an original beside its entry, see ``SingleFlight/Leader``.
    struct OriginalHistory {
        let hasPartial: Bool?
        let wasFetched: Bool?
    }

    /// Falls back to a lead without a lock if the reply cannot be read, for this key alone: the flights of other keys
    /// stay valid.
    func decide(
        _ key: CacheKey,
        _ reply: Result<FlightReply, RedisError>,
        _ history: OriginalHistory,
        known: CachedData?
    ) async -> SingleFlight.Decision {
        do throws(RedisError) {
            return try await decision(key, reply.get(), history, known: known)
        } catch {
            statistics?.add("fail_open", 1)
            logger.debug("a lookup failed; the caller leads without a lock", metadata: [LogKey.error: "\(error)"])
            return .lead(SingleFlight.Leader(key: key, token: nil))
        }
    }

    private func decision(
        _ key: CacheKey,
        _ reply: FlightReply,
        _ history: OriginalHistory,
        known: CachedData?
    ) async throws(RedisError) -> SingleFlight.Decision {
        switch reply {
        case .hit(let milliseconds, let header, let first):
            let entry = try await cache.read(CacheKeys.entry(key), at: cache.nodes[key], header: header, first: first)
            return hit(key, entry, milliseconds: milliseconds)
        case .same(let milliseconds, let header):
            var entry = known
            if let header = header.buffer.flatMap({ CacheEntry.Header(json: $0) }) {
                entry?.metadata = header.metadata
            } else {
                entry = nil
            }
            return hit(key, entry, milliseconds: milliseconds)
        case .failed(let failure, let left, let isShared, let old):
            return await failed(key, failure, millisecondsLeft: left, isShared: isShared, old)
        case .wait(let milliseconds, let token, let old):
            return await wait(key, milliseconds: milliseconds, token: token, old)
        case .uncacheable(let token):
            statistics?.add("misses", 1)
            return .lead(SingleFlight.Leader(unlocked: key, token: token))
        case .lead(let token, let old):
            return await lead(key, token: token, old, history)
        }
    }

    /// - Parameter entry: nil if it is damaged, or deleted since: it is made again, this time without a lock.
    private func hit(_ key: CacheKey, _ entry: CachedData?, milliseconds: Int) -> SingleFlight.Decision {
        guard var entry else {
            statistics?.add("misses", 1)
            return .lead(SingleFlight.Leader(key: key, token: nil))
        }
        // Data derived from the entry must not outlive it.
        entry.metadata.lifetime = Double(milliseconds) / 1000
        statistics?.add("hits", 1)
        return .hit(entry)
    }

    private func failed(
        _ key: CacheKey,
        _ failure: RedisValue,
        millisecondsLeft: Int,
        isShared: Bool,
        _ old: FlightReply.StaleEntry?
    ) async -> SingleFlight.Decision {
        // A waiter of the flight receives its failure as the leader does, not as a remembered one.
        let fresh = isShared ? RememberedFailure(failure)?.error : nil
        let error = fresh ?? RememberedFailure.error(failure, millisecondsLeft: millisecondsLeft)
        if let old = await entry(key, old), old.mayServeWhileRevalidating || old.mayServe(after: error) {
            statistics?.add("stale_hits", 1)
            return .stale(old, nil)
        }
        statistics?.add("negatives", 1)
        return .failed(error)
    }

    private func wait(
        _ key: CacheKey,
        milliseconds: Int,
        token: Int?,
        _ old: FlightReply.StaleEntry?
    ) async -> SingleFlight.Decision {
        if let old = await entry(key, old), old.mayServeWhileRevalidating {
            statistics?.add("stale_hits", 1)
            return .stale(old, nil)
        }
        // The flight cannot have a result that others see.
        if cache.nodes[key].capacity.isFull {
            statistics?.add("misses", 1)
            return .lead(SingleFlight.Leader(key: key, token: nil))
        }
        statistics?.add("waits", 1)
        return .wait(SingleFlight.Waiter(key: key, remaining: Double(milliseconds) / 1000, token: token))
    }

    private func lead(
        _ key: CacheKey,
        token: Int?,
        _ old: FlightReply.StaleEntry?,
        _ history: OriginalHistory
    ) async -> SingleFlight.Decision {
        let old = await entry(key, old)
        let lead = SingleFlight.Leader(
            key: key,
            token: token,
            stale: old,
            hasPartial: history.hasPartial,
            wasFetched: history.wasFetched
        )
        statistics?.add("leads", 1)
        guard let old, old.mayServeWhileRevalidating else {
            statistics?.add("misses", 1)
            return .lead(lead)
        }
        statistics?.add("stale_hits", 1)
        return .stale(old, lead)
    }

    /// The stale entry of a reply, whole; nil also if it cannot be read: neither a lead nor a wait must be lost for
    /// that.
    private func entry(_ key: CacheKey, _ old: FlightReply.StaleEntry?) async -> CachedData? {
        guard let old else { return nil }
        do throws(RedisError) {
            var entry = try await cache.read(
                CacheKeys.entry(key),
                at: cache.nodes[key],
                header: old.header,
                first: old.first
            )
            entry?.staleness = Double(old.milliseconds) / 1000
            return entry
        } catch {
            statistics?.add("cache_errors", 1)
            logger.debug("cannot read a stale cache entry", metadata: [LogKey.error: "\(error)"])
            return nil
        }
    }
}
