internal import Foundation

extension RenditionMaker {
    /// A rendition to be made.
    struct Led: Sendable {
        let lead: FlightLead
        let rendition: Rendition
        /// Whether the coordinator has assigned the lead, so that others may wait for the flight to end.
        let isFlight: Bool
    }

    /// Result of one cache lookup.
    struct Look {
        var settled: Settled = [:]
        var led: [Led] = []
        /// Served stale, to be made again in the background.
        var behind: [Led] = []
        /// Served stale, as the request accepts that; the lead is given up.
        var dropped: [FlightLead] = []
        var awaited: [FlightWait] = []
    }

    func look(
        for open: [(key: CacheKey, rendition: Rendition)],
        after awaited: [FlightWait],
        _ order: Order
    ) async -> Look {
        let decisions = await decisions(open.map(\.key), after: awaited, order)
        // An entry that this request waited for is newer than the request, so its cache directives do not apply.
        let policy = awaited.isEmpty ? order.wish.policy : .silent
        let now = Date()
        var look = Look()
        for (decision, (key, rendition)) in zip(decisions, open) {
            switch decision {
            case .hit(let cached), .stale(let cached, nil):
                if policy.refuses(cached, at: now) {
                    let lead = FlightLead(key: key, token: nil, stale: cached)
                    look.led.append(Led(lead: lead, rendition: rendition, isFlight: false))
                } else {
                    look.settled[key] = .success(found(cached, rendition, order.metrics))
                }
            case .stale(let cached, let lead?):
                let led = Led(lead: lead, rendition: rendition, isFlight: true)
                if policy.refuses(cached, at: now) {
                    look.led.append(led)
                } else {
                    look.settled[key] = .success(found(cached, rendition, order.metrics))
                    if policy.isContent(with: cached, at: now) {
                        look.dropped.append(lead)
                    } else {
                        look.behind.append(led)
                    }
                }
            case .lead(let lead):
                let isFlight = order.wish.way == .flights
                if let cached = lead.stale, policy.isContent(with: cached, at: now) {
                    look.settled[key] = .success(found(cached, rendition, order.metrics))
                    if isFlight { look.dropped.append(lead) }
                } else {
                    look.led.append(Led(lead: lead, rendition: rendition, isFlight: isFlight))
                }
            case .failed(let error)
            where !error.matches(request: order.source.sentFields, under: configuration):
                let lead = FlightLead(key: key, token: nil)
                look.led.append(Led(lead: lead, rendition: rendition, isFlight: false))
            case .failed(let error): look.settled[key] = .failure(error)
            case .wait(let flight): look.awaited.append(flight)
            }
        }
        return look
    }

    /// Decisions for all keys from one lookup, with the cache access of the request.
    private func decisions(_ keys: [CacheKey], after awaited: [FlightWait], _ order: Order) async -> [FlightDecision] {
        switch order.wish.way {
        case .flights:
            return await order.source.flights.begin(
                keys,
                after: awaited,
                maximumFailureAge: order.wish.maximumFailureAge
            )
        case .lookUp:
            return zip(keys, await order.source.flights.lookUp(keys)).map { key, entry in
                if let entry, entry.staleness == nil { return .hit(entry) }
                return .lead(FlightLead(key: key, token: nil, stale: entry))
            }
        case .nothing: return keys.map { .lead(FlightLead(key: $0, token: nil)) }
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
