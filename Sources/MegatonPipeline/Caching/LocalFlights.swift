internal import Foundation

/// The coordinator of a pipeline that stands alone: everybody leads, and a `DataCaching` keeps the results.
///
/// Within the process the pipeline coalesces by itself.
public struct LocalFlights: FlightCoordinating {
    private let cache: (any DataCaching)?

    /// - Parameter cache: where results are kept; nil keeps nothing.
    public init(cache: (any DataCaching)? = nil) { self.cache = cache }

    public func lookUp(_ keys: [CacheKey]) async -> [CachedData?] {
        let hits = await cache?.hits(for: keys.map(\.description)) ?? Array(repeating: nil, count: keys.count)
        let now = Date().timeIntervalSince1970
        return hits.map { hit in
            guard let hit, var entry = CachedData(encoded: hit.data)?.asOf(now) else { return nil }
            entry.layer = hit.layer
            return entry
        }
    }

    public func begin(_ keys: [CacheKey], after waits: [FlightWait]) async -> [FlightDecision] {
        zip(keys, await lookUp(keys)).map { key, entry in
            guard let entry else { return .lead(FlightLead(key: key, token: nil)) }
            if entry.staleness == nil { return .hit(entry) }
            let lead = FlightLead(key: key, token: nil, stale: entry)
            return entry.mayServeWhileRevalidating ? .stale(entry, lead) : .lead(lead)
        }
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
    /// With what is left of its lifetime, or with how long it has been stale.
    fileprivate func asOf(_ now: Double) -> CachedData {
        var entry = self
        let left = (metadata.stored ?? 0) + metadata.lifetime - now
        // A stale one keeps its lifetime: it gets it again by a 304 that does not name one.
        if left > 0 { entry.metadata.lifetime = left } else { entry.staleness = -left }
        return entry
    }
}
