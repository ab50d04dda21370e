internal import Foundation

// Requests for one URL whose header fields differ share an original, unless the response varies by these fields
// (RFC 9111 section 4.1):
//
//   sharedOriginal ─┬─ matches the request ──────────────────────────────► it is the answer
//                   ├─ varies by fields that the request sends otherwise ─► the entry beneath it for these values
//                   └─ nothing ───────────────────────────────────────────► the origin
//
// Flights and remembered failures stay apart, by the key with all header fields: a field that the origin refuses must not
// cost those who do not send it their image.
extension OriginalLoader {
    /// The caches' entry for a request beneath its `sharedKey`.
    struct Shared: Sendable {
        /// The entry that matches the request, fresh or not.
        let entry: CachedData?
        /// Where that is, or would be.
        let place: CacheKey
        /// Whether an entry at the shared key itself is for other requests.
        let isTaken: Bool
        /// Of the entry at the shared key itself.
        var generation: String?
    }

    /// - Returns: nil for a request that has no other key than its own.
    func shared(_ source: Source) async -> Shared? {
        guard let key = source.sharedKey else { return nil }
        let sent = source.sentFields
        guard let first = await source.flights.lookUpStale([key]).first ?? nil else {
            return Shared(entry: nil, place: key, isTaken: false)
        }
        guard let names = first.metadata.vary?.keys, !first.metadata.matches(request: sent) else {
            return Shared(entry: first, place: key, isTaken: false, generation: first.metadata.generation)
        }
        let generation = first.metadata.generation
        let variant = VaryKey(names, request: sent).key(beneath: key, generation: generation)
        let found = await source.flights.lookUpStale([variant]).first ?? nil
        let entry = found.flatMap { $0.metadata.matches(request: sent) ? $0 : nil }
        return Shared(entry: entry, place: variant, isTaken: true, generation: generation)
    }

    /// The answer that such an entry is without the origin; nil if that is to be asked.
    func answer(_ shared: Shared?, _ load: Load) -> Original? {
        guard let entry = shared?.entry else { return nil }
        let (policy, now) = (load.source.cachePolicy, Date())
        if policy.isContent(with: entry, at: now) { return hit(entry, load.metrics) }
        guard load.wish.wantsAnswer, entry.staleness != nil, entry.mayServeWhileRevalidating,
            !policy.refuses(entry, at: now)
        else { return nil }
        refresh(load)
        return stale(entry, load.metrics)
    }

    /// The generation of an entry that varies: that of the entry at the shared key, also if the new one takes its place;
    /// a new one if there is none, or if nobody has looked.
    func generation(_ load: Load) -> String? {
        // Also if it has none, as that is by which later requests look for the variant.
        if let shared = load.shared, shared.isTaken { return shared.generation }
        return load.shared?.generation ?? load.generation ?? String(UInt64.random(in: .min ... .max), radix: 36)
    }

    /// Where the entry for a response goes; nil for its own key.
    func places(of metadata: CachedData.Metadata?, _ load: Load) -> [CacheKey]? {
        guard let key = load.source.sharedKey else { return nil }
        guard let names = metadata?.vary?.keys else { return [key] }
        let variant = VaryKey(names, request: load.source.sentFields).key(
            beneath: key,
            generation: metadata?.generation
        )
        // At the shared key too, unless one for other requests is there: it says by which fields the response varies.
        return load.shared?.isTaken == true ? [variant] : [variant, key]
    }
}
