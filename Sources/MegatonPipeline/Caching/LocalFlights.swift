internal import Foundation

/// The coordinator of a pipeline that stands alone: everybody leads, and a `DataCaching` keeps the results.
///
/// Within the process the pipeline coalesces by itself.
public struct LocalFlights: FlightCoordinating {
    private let cache: (any DataCaching)?
    /// Whether the beginnings of interrupted downloads are in the same cache, so that one look finds both.
    private let keepsPartials: Bool

    /// - Parameter cache: where results are kept; nil keeps nothing.
    public init(cache: (any DataCaching)? = nil) { self.init(cache: cache, keepsPartials: false) }

    init(cache: (any DataCaching)?, keepsPartials: Bool) {
        self.cache = cache
        self.keepsPartials = keepsPartials && cache != nil
    }

    public func lookUp(_ keys: [CacheKey]) async -> [CachedData?] { await look(keys, partialOf: nil).entries }

    /// Looks up entries and the beginning of an original's download at once.
    ///
    /// - Returns: the entries, fresh or stale, in the order of the keys; whether there is a beginning, nil if this cache
    ///   has none.
    func look(_ keys: [CacheKey], partialOf original: CacheKey?) async -> (entries: [CachedData?], hasPartial: Bool?) {
        guard let cache else { return (Array(repeating: nil, count: keys.count), nil) }
        let partial = keepsPartials ? original.map(CacheKey.partial) : nil
        let hits = await cache.hits(for: (keys + [partial].compactMap { $0 }).map(\.description))
        let now = Date().timeIntervalSince1970
        let entries = zip(keys, hits).map { key, hit -> CachedData? in
            guard let hit else { return nil }
            // Bytes of an image without an envelope are a program's own, put there by hand.
            var found = CachedData(encoded: hit.data)
            if found == nil, key.kind != .rendition { found = CachedData(image: hit.data, now) }
            guard var entry = found?.asOf(now) else { return nil }
            entry.layer = hit.layer
            return entry
        }
        return (entries, partial.map { _ in hits.count > keys.count && hits[keys.count] != nil })
    }

    public func begin(_ keys: [CacheKey], after waits: [FlightWait]) async -> [FlightDecision] {
        let original = keys.count == 1 && keys[0].kind == .original ? keys[0] : nil
        let (entries, hasPartial) = await look(keys, partialOf: original)
        return zip(keys, entries).map { decision($0, $1, hasPartial: hasPartial) }
    }

    /// The decision about a key after a look.
    func decision(_ key: CacheKey, _ entry: CachedData?, hasPartial: Bool?) -> FlightDecision {
        guard let entry else { return .lead(FlightLead(key: key, token: nil, hasPartial: hasPartial)) }
        if entry.staleness == nil { return .hit(entry) }
        let lead = FlightLead(key: key, token: nil, stale: entry, hasPartial: hasPartial)
        return entry.mayServeWhileRevalidating ? .stale(entry, lead) : .lead(lead)
    }

    public func wait(for flight: FlightWait) async {}

    @discardableResult
    public func finish(_ entries: [(lead: FlightLead, entry: CachedData?)]) async -> Set<CacheKey> {
        var kept: Set<CacheKey> = []
        for (lead, entry) in entries {
            if let entry {
                if await store(entry, for: lead.key) { kept.insert(lead.key) }
            } else if lead.stale != nil {
                await cache?.removeData(for: lead.key.description)
            }
        }
        return kept
    }

    @discardableResult
    public func store(_ entry: CachedData, for key: CacheKey) async -> Bool {
        guard let cache else { return false }
        var entry = entry
        entry.metadata.stored = Date().timeIntervalSince1970
        // Metadata of strings and finite numbers always encodes; an entry that does not is not kept.
        guard let blob = try? entry.encoded() else { return false }
        await cache.storeData(blob, for: key.description)
        return true
    }

    @discardableResult
    public func replace(_ entry: CachedData, for key: CacheKey) async -> Bool { await store(entry, for: key) }

    public func discard(_ key: CacheKey) async { await cache?.removeData(for: key.description) }

    public func fail(_ leads: [FlightLead], error: ImagePipeline.Error) async {
        guard let cache, error.supersedesEntry else { return }
        for lead in leads where lead.stale != nil { await cache.removeData(for: lead.key.description) }
    }
}

extension CachedData {
    /// An image that was put into the cache without an envelope: fresh for as long as anything can be.
    ///
    /// - Returns: nil if the bytes are of no known image type.
    fileprivate init?(image data: Data, _ now: Double) {
        guard let type = AssetType(data) else { return nil }
        var metadata = Metadata(type: type.mediaType, lifetime: CacheControl.longest)
        metadata.stored = now
        self.init(data: data, metadata: metadata)
    }

    /// With what is left of its lifetime, or with how long it has been stale.
    fileprivate func asOf(_ now: Double) -> CachedData {
        var entry = self
        let left = (metadata.stored ?? 0) + metadata.lifetime - now
        // A stale one keeps its lifetime: it gets it again by a 304 that does not name one.
        if left > 0 { entry.metadata.lifetime = left } else { entry.staleness = -left }
        return entry
    }
}
