internal import Foundation

// Requests for one URL whose header fields differ share an original, unless the response varies by these fields
// (RFC 9111 section 4.1):
//
//   sharedOriginal ─┬─ matches the request ──────────────────────────────────► it is the answer
//                   ├─ varies by fields that the request sends differently ──► the entry below it for these values
//                   └─ no entry ─────────────────────────────────────────────► the origin
//
// Flights and remembered failures are separate, by the key with all header fields: if an origin refuses a field,
// requests without it must not fail too.
extension OriginalLoader {
    /// Cache entry for a request at its `sharedKey`, or below it.
    struct Shared: Sendable {
        /// Entry that matches the request, fresh or stale.
        let entry: CachedData?
        /// Key of that entry, also if there is none yet.
        let key: CacheKey
        /// Whether the entry at the shared key itself is for other requests.
        let isTaken: Bool
        /// Generation of the entry at the shared key itself.
        var generation: String?
    }

    /// - Returns: nil if the request has no key other than its own.
    func shared(_ source: Source) async -> Shared? {
        guard let key = source.sharedKey else { return nil }
        let sent = source.sentFields
        guard let first = await source.flights.lookUpStale([key]).first ?? nil else {
            return Shared(entry: nil, key: key, isTaken: false)
        }
        guard let names = first.metadata.vary?.keys, !first.metadata.matches(request: sent) else {
            return Shared(entry: first, key: key, isTaken: false, generation: first.metadata.generation)
        }
        let generation = first.metadata.generation
        let variant = VaryKey(names, request: sent).key(beneath: key, generation: generation)
        let found = await source.flights.lookUpStale([variant]).first ?? nil
        let entry = found.flatMap { $0.metadata.matches(request: sent) ? $0 : nil }
        return Shared(entry: entry, key: variant, isTaken: true, generation: generation)
    }

    /// Original from a shared entry that answers without waiting for the origin; nil if the origin must be asked.
    func answer(_ shared: Shared?, _ load: Load) -> Original? {
        guard let entry = shared?.entry else { return nil }
        let (policy, now) = (load.source.cachePolicy, Date())
        if policy.accepts(entry, at: now) { return hit(entry, load.metrics) }
        guard load.options.wantsResponse, entry.staleness != nil, entry.mayServeWhileRevalidating,
            !policy.forbids(entry, at: now)
        else { return nil }
        refresh(load)
        return stale(entry, load.metrics)
    }

    /// Generation of an entry that varies: that of the entry at the shared key, also if the new entry replaces it; a
    /// new one if there is no such entry, or none was looked up.
    func generation(_ load: Load) -> String? {
        // Also if it is nil, as later requests look for the variant with the generation of that entry.
        if let shared = load.shared, shared.isTaken { return shared.generation }
        return load.shared?.generation ?? load.generation ?? String(UInt64.random(in: .min ... .max), radix: 36)
    }

    /// Keys under which the entry of a response is stored; nil for its own key.
    func storageKeys(of metadata: CachedData.Metadata?, _ load: Load) -> [CacheKey]? {
        guard let key = load.source.sharedKey else { return nil }
        guard let names = metadata?.vary?.keys else { return [key] }
        let variant = VaryKey(names, request: load.source.sentFields).key(
            beneath: key,
            generation: metadata?.generation
        )
        // Also the shared key, unless it has an entry for other requests: it names the fields by which the response
        // varies.
        return load.shared?.isTaken == true ? [variant] : [variant, key]
    }
}

extension VaryKey {
    /// Cache key of this variant.
    ///
    /// - Parameter generation: as in `CachedData.Metadata`; nil for entries that were stored without one.
    func key(beneath primary: CacheKey, generation: String? = nil) -> CacheKey {
        let sorted = fields.sorted { $0.key < $1.key }
        let last = generation.map { ["generation", $0] } ?? []
        return CacheKey(primary.kind, [primary.digest, "vary"] + sorted.flatMap { [$0.key, $0.value] } + last)
    }
}
