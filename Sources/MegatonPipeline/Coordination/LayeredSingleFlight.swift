internal import Foundation

/// Near caches in front of a shared cache, e.g. memory or disk before a cluster's Redis.
///
/// The shared coordinator elects the leaders, and its cache is authoritative. A near cache holds copies of its entries:
///
/// - A copy is served while it is fresh, for at most `ttl` after it was seen in the shared cache. Then the shared
///   cache is asked again, and sends the bytes only if they have changed.
/// - A reported deletion (`observeDeletions`) invalidates the copy at once. After an unreported one, e.g. an
///   administrator's `DEL`, the copy is served for at most `ttl`.
/// - An entry that the shared cache refused, because another flight of the same key is newer, is not copied.
///
/// A configuration with both `flights` and `dataCache` combines them in a `LayeredSingleFlight`.
package struct LayeredSingleFlight: SingleFlightCoordinating {
    private let cache: any DataCaching
    private let shared: any SingleFlightCoordinating
    private let validity: NearCacheValidity

    /// - Parameters:
    ///   - cache: the near cache of this process or machine; a `LayeredDataCache` if there are several.
    ///   - shared: the coordinator with the shared cache.
    ///   - ttl: time to live of a copy, after which the shared cache is asked again; a minute by default.
    package init(_ cache: any DataCaching, over shared: any SingleFlightCoordinating, ttl: Duration = .seconds(60)) {
        self.init(cache, over: shared, ttl: ttl, time: TimeSource(ContinuousClock()))
    }

    init(_ cache: any DataCaching, over shared: any SingleFlightCoordinating, ttl: Duration, time: TimeSource) {
        self.cache = cache
        self.shared = shared
        let validity = NearCacheValidity(ttl, date: time.date)
        self.validity = validity
        // Weak because the shared coordinator may outlive the pipelines that use it. The subscription ends when
        // `validity` is deinitialized.
        validity.observe(shared.observeDeletions { [weak validity] key in validity?.invalidate(key) })
    }

    // MARK: - Lookups

    package func lookUp(_ keys: [CacheKey]) async -> [CachedData?] {
        var found = await copies(of: keys)
        let missing = found.indices.filter { found[$0] == nil }
        if missing.isEmpty { return found }
        let asked = validity.date()
        let answers = await shared.lookUp(missing.map { keys[$0] })
        for (index, entry) in zip(missing, answers) {
            found[index] = entry
            if let entry { await copy(entry, keys[index], seen: asked) }
        }
        return found
    }

    package func lookUpStale(_ keys: [CacheKey]) async -> [CachedData?] {
        var found = await copies(of: keys)
        let missing = found.indices.filter { found[$0] == nil }
        if missing.isEmpty { return found }
        let asked = validity.date()
        let answers = await shared.lookUpStale(missing.map { keys[$0] })
        for (index, entry) in zip(missing, answers) {
            found[index] = entry
            if let entry, entry.staleness == nil { await copy(entry, keys[index], seen: asked) }
        }
        return found
    }

    package func begin(_ keys: [CacheKey], after waits: [SingleFlight.Waiter]) async -> [SingleFlight.Decision] {
        await begin(keys, after: waits, maximumFailureAge: nil)
    }

    package func begin(
        _ keys: [CacheKey],
        after waits: [SingleFlight.Waiter],
        maximumFailureAge: Duration?
    ) async -> [SingleFlight.Decision] {
        // Only the shared cache knows the result of a flight.
        let awaited = Set(waits.map(\.key))
        let (valid, known) = await allCopies(of: keys)
        var decisions = zip(keys, valid).map { key, entry in
            awaited.contains(key) ? nil : entry.map { SingleFlight.Decision.hit($0) }
        }
        let missing = decisions.indices.filter { decisions[$0] == nil }
        if !missing.isEmpty {
            let asked = validity.date()
            let asking = missing.map { keys[$0] }
            let answers = await shared.begin(
                asking,
                after: waits,
                maximumFailureAge: maximumFailureAge,
                known: known
            )
            for (index, decision) in zip(missing, answers) {
                decisions[index] = decision
                if case .hit(let entry) = decision { await copy(entry, keys[index], seen: asked) }
            }
        }
        // A key without a decision is led without coordination.
        return zip(keys, decisions).map { $1 ?? .lead(SingleFlight.Leader(key: $0, token: nil)) }
    }

    package func wait(for flight: SingleFlight.Waiter) async { await shared.wait(for: flight) }

    package func abandon(_ flight: SingleFlight.Waiter) async { await shared.abandon(flight) }

    package func remember(_ error: ImageError?, for key: CacheKey) async {
        await shared.remember(error, for: key)
    }

    package func bindingFailure(for key: CacheKey) async -> ImageError? {
        await shared.bindingFailure(for: key)
    }

    // MARK: - Changes

    @discardableResult
    package func finish(_ entries: [(leader: SingleFlight.Leader, entry: CachedData?)]) async -> Set<CacheKey> {
        let began = validity.date()
        let stored = await shared.finish(entries)
        for (leader, entry) in entries {
            // A leader without a token is uncoordinated: the shared cache is unreachable, or lets every caller lead.
            let isCopied = leader.token == nil || stored.contains(leader.key)
            await settle(isCopied ? entry : nil, leader.key, began)
        }
        return stored
    }

    package func fail(_ leaders: [SingleFlight.Leader], error: ImageError) async {
        await shared.fail(leaders, error: error)
        guard error.supersedesEntry else { return }
        for leader in leaders { await forget(leader.key) }
    }

    @discardableResult
    package func store(_ entry: CachedData, for key: CacheKey) async -> Bool {
        let began = validity.date()
        let isStored = await shared.store(entry, for: key)
        await settle(isStored ? entry : nil, key, began)
        return isStored
    }

    @discardableResult
    package func replace(_ entry: CachedData, for key: CacheKey) async -> Bool {
        let began = validity.date()
        let isStored = await shared.replace(entry, for: key)
        await settle(isStored ? entry : nil, key, began)
        return isStored
    }

    package func discard(_ key: CacheKey) async {
        await shared.discard(key)
        await forget(key)
    }

    package func observeDeletions(_ handler: @escaping @Sendable (String?) -> Void) -> any Cancellable {
        shared.observeDeletions(handler)
    }

    // MARK: - Copies

    /// Returns the copies that may be served.
    private func copies(of keys: [CacheKey]) async -> [CachedData?] { await allCopies(of: keys).valid }

    /// Returns the copies that may be served, and the others, which the shared cache may confirm.
    private func allCopies(of keys: [CacheKey]) async -> (valid: [CachedData?], others: [CacheKey: CachedData]) {
        let hits = await cache.hits(for: keys.map(\.description))
        let now = validity.date()
        var others: [CacheKey: CachedData] = [:]
        let valid = zip(keys, hits).map { key, hit -> CachedData? in
            guard let hit, let copy = NearCacheEntry(encoded: hit.data) else { return nil }
            if validity.isValid(key.description, seen: copy.seen), var entry = copy.entry(at: now) {
                entry.layer = hit.layer
                return entry
            }
            others[key] = copy.entry
            others[key]?.layer = hit.layer
            return nil
        }
        return (valid, others)
    }

    /// Copies an entry of the shared cache, unless it may have changed since it was seen there, or the near cache would
    /// have to wait for its disk.
    private func copy(_ entry: CachedData, _ key: CacheKey, seen: Int64) async {
        guard validity.isValid(key.description, seen: seen), let copy = NearCacheEntry(entry, seen: seen) else {
            return
        }
        await cache.offer(copy.encoded, for: key.description)
    }

    /// Copies an entry that the shared cache has just accepted; without one, deletes the copy.
    private func settle(_ entry: CachedData?, _ key: CacheKey, _ began: Int64) async {
        guard var entry, let seen = validity.change(key.description, since: began) else { return await forget(key) }
        entry.metadata.stored = Double(seen) / 1_000_000_000
        guard let copy = NearCacheEntry(entry, seen: seen) else { return await forget(key) }
        await cache.storeData(copy.encoded, for: key.description)
    }

    /// Deletes a copy, and prevents concurrent copying of an entry that was read before.
    private func forget(_ key: CacheKey) async {
        validity.invalidate(key.description)
        await cache.removeData(for: key.description)
    }
}
