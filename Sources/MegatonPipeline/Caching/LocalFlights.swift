internal import Foundation

/// The coordinator of a pipeline that stands alone: everybody leads, and a `DataCaching` keeps the results.
///
/// Within the process the pipeline coalesces by itself.
public struct LocalFlights: FlightCoordinating {
    private let cache: (any DataCaching)?

    /// - Parameter cache: where results are kept; nil keeps nothing.
    public init(cache: (any DataCaching)? = nil) { self.cache = cache }

    public func begin(_ keys: [CacheKey]) async -> [FlightDecision] {
        let blobs = await cache?.cachedData(for: keys.map(\.description)) ?? Array(repeating: nil, count: keys.count)
        let now = Date().timeIntervalSince1970
        return zip(keys, blobs).map { key, blob in
            if let entry = blob.flatMap(CachedData.init(encoded:)), entry.isFresh(at: now) { return .hit(entry) }
            return .lead(FlightLead(key: key, token: nil))
        }
    }

    public func wait(for flight: FlightWait) async {}

    public func finish(_ entries: [(lead: FlightLead, entry: CachedData?)]) async {
        guard let cache else { return }
        for (lead, entry) in entries {
            guard var entry else { continue }
            entry.metadata.stored = Date().timeIntervalSince1970
            // Metadata of strings and finite numbers always encodes; an entry that does not is not kept.
            if let blob = try? entry.encoded() { await cache.storeData(blob, for: lead.key.description) }
        }
    }

    public func fail(_ leads: [FlightLead], error: ImagePipeline.Error) async {}
}

extension CachedData {
    fileprivate func isFresh(at now: Double) -> Bool {
        now < (metadata.stored ?? 0) + metadata.lifetime
    }
}
