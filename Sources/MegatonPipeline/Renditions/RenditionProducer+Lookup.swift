internal import Foundation

extension RenditionProducer {
    /// A rendition to be made.
    struct PendingRendition: Sendable {
        let lead: SingleFlight.Leader
        let rendition: Rendition
        /// Whether the coordinator has assigned the lead, so that others may wait for the flight to end.
        let isFlight: Bool
    }

    /// Result of one cache lookup.
    struct LookupResult {
        var settled: Settled = [:]
        var led: [PendingRendition] = []
        /// Served stale, to be made again in the background.
        var behind: [PendingRendition] = []
        /// Served stale, as the request accepts that; the lead is given up.
        var dropped: [SingleFlight.Leader] = []
        var awaited: [SingleFlight.Waiter] = []
    }

    func look(
        for open: [(key: CacheKey, rendition: Rendition)],
        after awaited: [SingleFlight.Waiter],
        _ request: Request
    ) async -> LookupResult {
        let decisions = await decisions(open.map(\.key), after: awaited, request)
        // An entry that this request waited for is newer than the request, so its cache directives do not apply.
        let policy = awaited.isEmpty ? request.wish.policy : .silent
        let now = Date()
        var look = LookupResult()
        for (decision, (key, rendition)) in zip(decisions, open) {
            switch decision {
            case .hit(let cached), .stale(let cached, nil):
                if policy.refuses(cached, at: now) {
                    let lead = SingleFlight.Leader(key: key, token: nil, stale: cached)
                    look.led.append(PendingRendition(lead: lead, rendition: rendition, isFlight: false))
                } else {
                    look.settled[key] = .success(found(cached, rendition, request.metrics))
                }
            case .stale(let cached, let lead?):
                let led = PendingRendition(lead: lead, rendition: rendition, isFlight: true)
                if policy.refuses(cached, at: now) {
                    look.led.append(led)
                } else {
                    look.settled[key] = .success(found(cached, rendition, request.metrics))
                    if policy.isContent(with: cached, at: now) {
                        look.dropped.append(lead)
                    } else {
                        look.behind.append(led)
                    }
                }
            case .lead(let lead):
                let isFlight = request.wish.way == .flights
                if let cached = lead.stale, policy.isContent(with: cached, at: now) {
                    look.settled[key] = .success(found(cached, rendition, request.metrics))
                    if isFlight { look.dropped.append(lead) }
                } else {
                    look.led.append(PendingRendition(lead: lead, rendition: rendition, isFlight: isFlight))
                }
            case .failed(let error)
            where !error.matches(request: request.source.sentFields, under: configuration):
                let lead = SingleFlight.Leader(key: key, token: nil)
                look.led.append(PendingRendition(lead: lead, rendition: rendition, isFlight: false))
            case .failed(let error): look.settled[key] = .failure(error)
            case .wait(let flight): look.awaited.append(flight)
            }
        }
        return look
    }

    /// Decisions for all keys from one lookup, with the cache access of the request.
    private func decisions(
        _ keys: [CacheKey],
        after awaited: [SingleFlight.Waiter],
        _ request: Request
    ) async -> [SingleFlight.Decision] {
        switch request.wish.way {
        case .flights:
            return await request.source.flights.begin(
                keys,
                after: awaited,
                maximumFailureAge: request.wish.maximumFailureAge
            )
        case .lookUp:
            return zip(keys, await request.source.flights.lookUp(keys)).map { key, entry in
                if let entry, entry.staleness == nil { return .hit(entry) }
                return .lead(SingleFlight.Leader(key: key, token: nil, stale: entry))
            }
        case .nothing: return keys.map { .lead(SingleFlight.Leader(key: $0, token: nil)) }
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
