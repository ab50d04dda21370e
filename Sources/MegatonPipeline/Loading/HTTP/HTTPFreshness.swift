internal import Foundation

/// How long an answer of an origin may be used (RFC 9111 sections 3 and 4.2), and for how long it may still be served
/// when it is stale (RFC 5861).
struct HTTPFreshness: Equatable {
    /// Seconds that are left when the answer is here; nil where it must not be kept. 0 where it may be, but must be
    /// revalidated before each use.
    let lifetime: Double?
    /// Seconds after the lifetime, nil for none: it may be served while the origin is asked.
    let staleWhileRevalidate: Double?
    /// Seconds after the lifetime, nil for none: it may be served in the place of an error.
    let staleIfError: Double?
    /// Seconds: how old it was when it came (RFC 9111 section 4.2.3).
    let age: Double

    /// Seconds for which a response without any lifetime and without `Last-Modified` is fresh, unless a configuration has
    /// another number. Section 4.2.2 leaves the heuristic to the cache.
    static let defaultLifetime: Double = 24 * 3600
    /// The lifetime as a share of the time since `Last-Modified` (section 4.2.2).
    static let heuristicShare = 0.1
    /// A lifetime by `Last-Modified` is at most so many times the one without it: a week by default.
    static let heuristicLimit: Double = 7
    /// The answers that are kept as originals. Both are heuristically cacheable (RFC 9110 section 15.1), as are 204,
    /// 206, 300, 301, 308, 404, 405, 410, 414 and 501: redirects are followed anew each time, a part is no picture, and
    /// errors are remembered for moments only.
    static let keptStatuses: Set<Int> = [200, 203]

    /// - Parameters:
    ///   - headers: names in lower case.
    ///   - isAuthorized: whether the request told who asks: a shared cache keeps the answer only where the origin says
    ///     that others may have it (RFC 9111 section 3.5).
    ///   - requested: when the request was sent.
    ///   - heuristic: seconds for which it is fresh if it names no lifetime: see `defaultLifetime`.
    ///   - received: when the answer was here; now by default.
    init(
        headers: [String: String],
        status: Int = 200,
        isAuthorized: Bool = false,
        heuristic: Double = defaultLifetime,
        requested: Date? = nil,
        received: Date = Date()
    ) {
        let control = CacheControl(headers["cache-control"])
        let age = Self.age(headers, requested: requested ?? received, received: received)
        let left = Self.lifetime(control, headers, heuristic, received: received) - age
        // RFC 9111 section 4.2.4: these forbid to serve what is stale, whatever else is said. `s-maxage` would too
        // (section 5.2.2.10), but an origin that sends it with `stale-…` means us: only shared caches heed it.
        let mustAsk = control.scope("no-cache") == .everything
        let mayBeStale = !mustAsk && !control.contains("must-revalidate") && !control.contains("proxy-revalidate")
        func window(_ name: String) -> Double? {
            guard mayBeStale, case .value(let seconds) = control.seconds(name) else { return nil }
            // What was stale already when it came has used up a part of it.
            let rest = seconds + min(0, left)
            return rest > 0 ? rest : nil
        }
        let (whileRevalidating, ifError) = (window("stale-while-revalidate"), window("stale-if-error"))
        let fresh = mustAsk ? 0 : max(0, left)
        let hasValidator = ["etag", "last-modified"].contains { headers[$0]?.isEmpty == false }
        let isOfUse = fresh > 0 || hasValidator || whileRevalidating != nil || ifError != nil
        let isKept = isOfUse && Self.mayKeep(headers, status: status, isAuthorized: isAuthorized)
        self.age = age
        lifetime = isKept ? fresh : nil
        staleWhileRevalidate = isKept ? whileRevalidating : nil
        staleIfError = isKept ? ifError : nil
    }

    /// Whether a shared cache may keep an answer at all, be it of use or not (RFC 9111 section 3).
    ///
    /// - Parameter headers: names in lower case.
    static func mayKeep(_ headers: [String: String], status: Int, isAuthorized: Bool) -> Bool {
        let control = CacheControl(headers["cache-control"])
        // Section 5.2.2.3: `no-store` beside it is meant for caches that do not know the status. We know what we keep.
        let isForbidden = control.contains("no-store") && !control.contains("must-understand")
        let mayShare =
            !isAuthorized || ["public", "s-maxage", "must-revalidate"].contains(where: control.contains)
        return keptStatuses.contains(status) && !isForbidden && control.scope("private") != .everything && mayShare
            && VaryKey.names(headers) != .all
    }

    /// Seconds from its making to its end, or 0 where the origin means something that cannot be understood
    /// (section 4.2.1). In a shared cache `s-maxage` goes before `max-age`, and both before `Expires`.
    private static func lifetime(
        _ control: CacheControl,
        _ headers: [String: String],
        _ heuristic: Double,
        received: Date
    ) -> Double {
        for name in ["s-maxage", "max-age"] {
            switch control.seconds(name) {
            case .absent: continue
            case .invalid: return 0
            case .value(let seconds): return seconds
            }
        }
        let made = HTTPDate.parse(headers["date"], now: received) ?? received
        if let expires = headers["expires"] {
            // Section 5.3: what is no date, 0 above all, has expired.
            guard let end = HTTPDate.parse(expires, now: received) else { return 0 }
            return min(max(0, end.timeIntervalSince(made)), CacheControl.longest)
        }
        guard let changed = HTTPDate.parse(headers["last-modified"], now: received) else { return heuristic }
        return min(max(0, made.timeIntervalSince(changed) * heuristicShare), heuristicLimit * heuristic)
    }

    /// Section 4.2.3. Never negative, so that a wrong clock of an origin prolongs nothing.
    private static func age(_ headers: [String: String], requested: Date, received: Date) -> Double {
        // A date that is none is as good as none (RFC 9110 section 6.6.1). It knows whole seconds only.
        let apparent = HTTPDate.parse(headers["date"], now: received).map {
            received.timeIntervalSince($0).rounded(.down)
        }
        // Section 5.1: the first one counts, and what is no number says nothing.
        let announced = headers["age"]
            .flatMap { $0.split(separator: ",").first }
            .flatMap { CacheControl.deltaSeconds(String(HTTPFieldList.trimmed($0))) }
        let delay = max(0, received.timeIntervalSince(requested))
        return max(0, apparent ?? 0, (announced ?? 0) + delay)
    }
}
