internal import Foundation

/// Coordinator of a standalone pipeline: every caller leads, and a `DataCaching` stores the results.
///
/// Within the process the pipeline itself coalesces requests: ``RenditionGroups`` those for renditions, and
/// ``WorkPool`` downloads and other shared work.
package struct LocalSingleFlight: SingleFlightCoordinating {
    private let cache: (any DataCaching)?
    /// Whether the cache also holds the first parts of interrupted downloads, so that one lookup finds both.
    private let storesPartials: Bool
    /// Origins from which entries are accepted: another process may have stored them. Nil accepts any.
    private let origins: EntryOrigins?

    /// - Parameter cache: stores the results; nil stores nothing.
    package init(cache: (any DataCaching)? = nil) { self.init(cache: cache, storesPartials: false, origins: nil) }

    init(cache: (any DataCaching)?, storesPartials: Bool, origins: EntryOrigins?) {
        self.cache = cache
        self.storesPartials = storesPartials && cache != nil
        self.origins = origins
    }

    package func lookUp(_ keys: [CacheKey]) async -> [CachedData?] { await lookUp(keys, partialOf: nil).entries }

    /// Looks up entries, and the first part of an original's interrupted download, in one call.
    ///
    /// - Returns: the entries, fresh or stale, in the order of the keys; and whether there is a partial download, nil
    ///   if this cache holds none.
    func lookUp(
        _ keys: [CacheKey],
        partialOf original: CacheKey?
    ) async -> (entries: [CachedData?], hasPartial: Bool?) {
        guard let cache else { return (Array(repeating: nil, count: keys.count), nil) }
        let partial = storesPartials ? original.map(CacheKey.partial) : nil
        let hits = await cache.hits(for: (keys + [partial].compactMap { $0 }).map(\.description))
        let now = Date().timeIntervalSince1970
        let entries = zip(keys, hits).map { key, hit -> CachedData? in
            guard let hit else { return nil }
            // Image bytes without an envelope were put into the cache by the program itself.
            var found = CachedData(encoded: hit.data)
            if found == nil, key.kind != .rendition { found = CachedData(image: hit.data, now) }
            guard var entry = found?.asOf(now), entry.isPermitted(by: origins) else { return nil }
            entry.layer = hit.layer
            return entry
        }
        return (entries, partial.map { _ in hits.count > keys.count && hits[keys.count] != nil })
    }

    package func begin(_ keys: [CacheKey], after waits: [SingleFlight.Waiter]) async -> [SingleFlight.Decision] {
        let original = keys.count == 1 && keys[0].kind == .original ? keys[0] : nil
        let (entries, hasPartial) = await lookUp(keys, partialOf: original)
        return zip(keys, entries).map { decision($0, $1, hasPartial: hasPartial) }
    }

    /// Decides about a key after its lookup.
    func decision(_ key: CacheKey, _ entry: CachedData?, hasPartial: Bool?) -> SingleFlight.Decision {
        guard let entry else { return .lead(SingleFlight.Leader(key: key, token: nil, hasPartial: hasPartial)) }
        if entry.staleness == nil { return .hit(entry) }
        let leader = SingleFlight.Leader(key: key, token: nil, stale: entry, hasPartial: hasPartial)
        return entry.mayServeWhileRevalidating ? .stale(entry, leader) : .lead(leader)
    }

    package func wait(for flight: SingleFlight.Waiter) async {}

    @discardableResult
    package func finish(_ entries: [(leader: SingleFlight.Leader, entry: CachedData?)]) async -> Set<CacheKey> {
        var stored: Set<CacheKey> = []
        for (leader, entry) in entries {
            if let entry {
                if await store(entry, for: leader.key) { stored.insert(leader.key) }
            } else if leader.stale != nil {
                await cache?.removeData(for: leader.key.description)
            }
        }
        return stored
    }

    @discardableResult
    package func store(_ entry: CachedData, for key: CacheKey) async -> Bool {
        guard let cache, !entry.isPart else { return false }
        var entry = entry
        entry.metadata.stored = Date().timeIntervalSince1970
        // Metadata of strings and finite numbers always encodes; an entry that does not encode is not stored.
        guard let blob = try? entry.encoded() else { return false }
        await cache.storeData(blob, for: key.description)
        return true
    }

    @discardableResult
    package func replace(_ entry: CachedData, for key: CacheKey) async -> Bool { await store(entry, for: key) }

    package func discard(_ key: CacheKey) async { await cache?.removeData(for: key.description) }

    package func fail(_ leaders: [SingleFlight.Leader], error: ImageError) async {
        guard let cache, error.supersedesEntry else { return }
        for leader in leaders where leader.stale != nil { await cache.removeData(for: leader.key.description) }
    }
}

extension CachedData {
    /// An image that was put into the cache without an envelope: it is fresh for the longest possible lifetime.
    ///
    /// - Returns: nil if the bytes are of no known image type.
    fileprivate init?(image data: Data, _ now: Double) {
        guard let type = AssetType(data) else { return nil }
        var metadata = Metadata(type: type.mediaType, lifetime: CacheControl.longest)
        metadata.stored = now
        self.init(data: data, metadata: metadata)
    }

    /// The entry with its remaining lifetime, or with the time since it became stale.
    fileprivate func asOf(_ now: Double) -> CachedData {
        var entry = self
        let left = (metadata.stored ?? 0) + metadata.lifetime - now
        // A stale entry keeps its lifetime, which a 304 that names none renews.
        if left > 0 { entry.metadata.lifetime = left } else { entry.staleness = -left }
        return entry
    }
}
