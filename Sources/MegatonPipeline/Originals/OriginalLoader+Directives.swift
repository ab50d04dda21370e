internal import Foundation

// Cache directives of a request (RFC 9111 section 5.2.1) apply to that request only: an entry that it refuses stays in
// the cache for others.
extension OriginalLoader {
    /// Result for a request whose cache directives override the coordinator's decision.
    ///
    /// - Returns: nil if the decision applies.
    func steered(_ decision: SingleFlight.Decision?, _ load: Load) async -> Result<Original, Error>? {
        let policy = load.source.cachePolicy
        if policy.isDefault { return nil }
        switch decision {
        case .hit(let entry), .stale(let entry, nil):
            guard entry.metadata.matches(request: load.source.sentFields) else { return nil }
            return policy.forbids(entry, at: Date()) ? await fetch(nil, refusing: entry, load) : nil
        case .stale(let entry, let leader?):
            return await welcome(entry, instead: leader, load)
        case .lead(let leader):
            guard let entry = leader.stale else { return nil }
            return await welcome(entry, instead: leader, load)
        case .wait, .failed, nil: return nil
        }
    }

    /// Serves a stale entry that the request accepts, and ends the flight, so that another request can begin one.
    private func welcome(
        _ entry: CachedData,
        instead leader: SingleFlight.Leader,
        _ load: Load
    ) async -> Result<Original, Error>? {
        guard entry.metadata.matches(request: load.source.sentFields),
            load.source.cachePolicy.accepts(entry, at: Date())
        else { return nil }
        await load.source.flights.fail([leader], error: Error(.cancelled, "A stale entry answered the request."))
        return .success(hit(entry, load.metrics))
    }

    /// Loads an original that must not be stored. Begins no flight: a flight that ends without an entry would remove
    /// the entry that other requests use.
    func loadWithoutStoring(_ load: Load) async -> Result<Original, Error> {
        let shared = await shared(load.source)?.entry
        let own = shared == nil ? await load.source.flights.lookUp([load.source.key]).first ?? nil : nil
        let found = shared ?? own
        guard let found, found.metadata.matches(request: load.source.sentFields) else {
            return await fetch(nil, load)
        }
        if load.source.cachePolicy.accepts(found, at: Date()) { return .success(hit(found, load.metrics)) }
        return await fetch(nil, refusing: found, load)
    }

    func hit(_ entry: CachedData, _ metrics: PipelineMetrics) -> Original {
        metrics.update {
            $0.originalHits += 1
            if entry.staleness != nil { $0.staleHits += 1 }
            $0.addHit(in: entry.layer)
        }
        return Original(entry, found: configuration.date())
    }
}
