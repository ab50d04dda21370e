internal import Foundation

extension RenditionProducer {
    /// A rendition to be made.
    struct PendingRendition: Sendable {
        let leader: SingleFlight.Leader
        let rendition: Rendition
        /// Whether the coordinator has begun a flight, so that others may wait for the flight to end.
        let isFlight: Bool
    }

    /// Result of one cache lookup.
    struct LookupResult {
        var results: Results = [:]
        var pending: [PendingRendition] = []
        /// Served stale, to be made again in the background.
        var revalidating: [PendingRendition] = []
        /// Served stale, as the request accepts that; their flights end.
        var dropped: [SingleFlight.Leader] = []
        var awaited: [SingleFlight.Waiter] = []
    }

    func lookUp(
        for open: [(key: CacheKey, rendition: Rendition)],
        after awaited: [SingleFlight.Waiter],
        _ request: Request
    ) async -> LookupResult {
        let decisions = await decisions(open.map(\.key), after: awaited, request)
        let now = Date()
        var result = LookupResult()
        for (decision, (key, rendition)) in zip(decisions, open) {
            // An entry that this request waited for is newer than the request, so its cache directives do not apply,
            // unless its leader asked the origin too early for a refresh.
            let isAwaited = !awaited.isEmpty && request.source.request.isNewEnough(decision.entry)
            let policy = isAwaited ? .default : request.options.policy
            switch decision {
            case .hit(let cached), .stale(let cached, nil):
                if policy.forbids(cached, at: now) {
                    let leader = SingleFlight.Leader(key: key, token: nil, stale: cached)
                    result.pending.append(PendingRendition(leader: leader, rendition: rendition, isFlight: false))
                } else {
                    result.results[key] = .success(found(cached, rendition, request.metrics))
                }
            case .stale(let cached, let leader?):
                let pending = PendingRendition(leader: leader, rendition: rendition, isFlight: true)
                if policy.forbids(cached, at: now) {
                    result.pending.append(pending)
                } else {
                    result.results[key] = .success(found(cached, rendition, request.metrics))
                    if policy.accepts(cached, at: now) {
                        result.dropped.append(leader)
                    } else {
                        result.revalidating.append(pending)
                    }
                }
            case .lead(let leader):
                let isFlight = request.options.cacheAccess == .singleFlight
                if let cached = leader.stale, policy.accepts(cached, at: now) {
                    result.results[key] = .success(found(cached, rendition, request.metrics))
                    if isFlight { result.dropped.append(leader) }
                } else {
                    result.pending.append(PendingRendition(leader: leader, rendition: rendition, isFlight: isFlight))
                }
            case .failed(let error)
            where !error.matches(request: request.source.sentFields, under: configuration):
                let leader = SingleFlight.Leader(key: key, token: nil)
                result.pending.append(PendingRendition(leader: leader, rendition: rendition, isFlight: false))
            case .failed(let error): result.results[key] = .failure(error)
            case .wait(let flight): result.awaited.append(flight)
            }
        }
        return result
    }

    /// Decisions for all keys from one lookup, with the cache access of the request.
    private func decisions(
        _ keys: [CacheKey],
        after awaited: [SingleFlight.Waiter],
        _ request: Request
    ) async -> [SingleFlight.Decision] {
        switch request.options.cacheAccess {
        case .singleFlight:
            return await request.source.flights.begin(
                keys,
                after: awaited,
                maximumFailureAge: request.options.maximumFailureAge
            )
        case .lookUp:
            return zip(keys, await request.source.flights.lookUp(keys)).map { key, entry in
                if let entry, entry.staleness == nil { return .hit(entry) }
                return .lead(SingleFlight.Leader(key: key, token: nil, stale: entry))
            }
        case .bypass: return keys.map { .lead(SingleFlight.Leader(key: $0, token: nil)) }
        }
    }

    func found(_ cached: CachedData, _ rendition: Rendition, _ metrics: PipelineMetrics) -> RenditionResponse {
        metrics.update {
            $0.cacheHits += 1
            if cached.staleness != nil { $0.staleHits += 1 }
            $0.addHit(in: cached.layer)
        }
        return RenditionResponse(rendition, cached)
    }
}
