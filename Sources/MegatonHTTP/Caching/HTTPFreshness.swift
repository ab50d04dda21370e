package import Foundation

/// How long a response may be used (RFC 9111 sections 3 and 4.2), and how long it may be served stale (RFC 5861).
package struct HTTPFreshness: Equatable {
    /// Remaining freshness lifetime on arrival, seconds; 0 if the response may be stored but is stale at once, nil if
    /// it must not be stored.
    package let lifetime: Double?
    /// Seconds after the lifetime during which the response may be served while it is revalidated; nil for none.
    package let staleWhileRevalidate: Double?
    /// Seconds after the lifetime during which the response may be served in place of an error; nil for none.
    package let staleIfError: Double?
    /// Age on arrival, seconds (RFC 9111 section 4.2.3).
    package let age: Double
    /// Why the response must not be stored or would be of no use, as a clause; nil if it is stored, or if only its
    /// status forbids that.
    package let obstacle: String?

    /// Default lifetime, in seconds, of a response with neither an explicit lifetime nor `Last-Modified`; a
    /// configuration may set another. Section 4.2.2 leaves the heuristic to the cache.
    package static let defaultLifetime: Double = 24 * 3600
    /// Heuristic lifetime as a share of the time since `Last-Modified` (section 4.2.2).
    static let heuristicShare = 0.1
    /// Upper bound of a lifetime by `Last-Modified`, as a multiple of the lifetime without it: a week by default.
    static let heuristicLimit: Double = 7
    /// Statuses that are stored as originals. Both are heuristically cacheable (RFC 9110 section 15.1). So are 204,
    /// 206, 300, 301, 308, 404, 405, 410, 414 and 501, but redirects are followed whenever the origin is asked, a
    /// partial body is not an image, and errors are remembered only briefly.
    package static let keptStatuses: Set<Int> = [200, 203]

    /// - Parameters:
    ///   - headers: names in lower case.
    ///   - isAuthorized: whether the request identified the caller. A shared cache stores the response then only if the
    ///     origin allows others to use it (RFC 9111 section 3.5).
    ///   - heuristic: lifetime in seconds of a response that names none: see `defaultLifetime`.
    ///   - requested: when the request was sent; `received` by default.
    ///   - received: when the response arrived; now by default.
    package init(
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
        // RFC 9111 section 4.2.4: these directives forbid serving stale responses, whatever else is present. `s-maxage`
        // would too (section 5.2.2.10), but only shared caches heed it, so an origin that combines it with `stale-…`
        // means them.
        let mustAsk = control.scope("no-cache") == .everything
        let mayBeStale = !mustAsk && !control.contains("must-revalidate") && !control.contains("proxy-revalidate")
        func window(_ name: String) -> Double? {
            guard mayBeStale, case .value(let seconds) = control.seconds(name) else { return nil }
            // A response that was stale on arrival has already used a part of the window.
            let rest = seconds + min(0, left)
            return rest > 0 ? rest : nil
        }
        let (whileRevalidating, ifError) = (window("stale-while-revalidate"), window("stale-if-error"))
        let fresh = mustAsk ? 0 : max(0, left)
        let hasValidator = ["etag", "last-modified"].contains { headers[$0]?.isEmpty == false }
        let isOfUse = fresh > 0 || hasValidator || whileRevalidating != nil || ifError != nil
        let isKept = isOfUse && Self.mayKeep(headers, status: status, isAuthorized: isAuthorized)
        self.age = age
        let useless = "it is stale at once, and has no ETag or Last-Modified by which it could be revalidated"
        obstacle = isKept ? nil : Self.prohibition(headers, isAuthorized: isAuthorized) ?? (isOfUse ? nil : useless)
        lifetime = isKept ? fresh : nil
        staleWhileRevalidate = isKept ? whileRevalidating : nil
        staleIfError = isKept ? ifError : nil
    }

    /// Remaining lifetime in seconds that the header fields of a redirect state: 0 if it must not be stored or used
    /// without asking again, nil if they state none.
    ///
    /// - Parameter headers: names in lower case.
    static func statedLifetime(_ headers: [String: String], received: Date = Date()) -> Double? {
        let control = CacheControl(headers["cache-control"])
        if control.scope("no-cache") == .everything || prohibition(headers, isAuthorized: false) != nil { return 0 }
        let isStated = headers["expires"] != nil || ["s-maxage", "max-age"].contains(where: control.contains)
        guard isStated else { return nil }
        let age = age(headers, requested: received, received: received)
        return max(0, lifetime(control, headers, 0, received: received) - age)
    }

    /// Whether a shared cache may store a response at all, useful or not (RFC 9111 section 3).
    ///
    /// - Parameter headers: names in lower case.
    static func mayKeep(_ headers: [String: String], status: Int, isAuthorized: Bool) -> Bool {
        keptStatuses.contains(status) && prohibition(headers, isAuthorized: isAuthorized) == nil
    }

    /// Why a shared cache must not store a response of any status, as a clause; nil if it may.
    private static func prohibition(_ headers: [String: String], isAuthorized: Bool) -> String? {
        let control = CacheControl(headers["cache-control"])
        // Section 5.2.2.3: with `must-understand`, `no-store` is for caches that do not know the status; this one does.
        if control.contains("no-store") && !control.contains("must-understand") {
            return "the origin forbids it (Cache-Control: no-store)"
        }
        if control.scope("private") == .everything { return "the origin forbids it (Cache-Control: private)" }
        if VaryKey.names(headers) == .all { return "the origin forbids it (Vary: *, or names that cannot be compared)" }
        if !isAuthorized || ["public", "s-maxage", "must-revalidate"].contains(where: control.contains) { return nil }
        return "the request has a credential, and the origin does not allow it (Cache-Control: public)"
    }

    /// Freshness lifetime in seconds since the origin created the response; 0 if a directive is malformed (section
    /// 4.2.1). In a shared cache `s-maxage` overrides `max-age`, and both override `Expires`.
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
            // Section 5.3: an invalid date, especially 0, means that the response has expired.
            guard let end = HTTPDate.parse(expires, now: received) else { return 0 }
            return min(max(0, end.timeIntervalSince(made)), CacheControl.longest)
        }
        guard let changed = HTTPDate.parse(headers["last-modified"], now: received) else { return heuristic }
        return min(max(0, made.timeIntervalSince(changed) * heuristicShare), heuristicLimit * heuristic)
    }

    /// Age on arrival, seconds (section 4.2.3). Never negative, so that an origin's wrong clock does not prolong a
    /// lifetime.
    private static func age(_ headers: [String: String], requested: Date, received: Date) -> Double {
        // An invalid date counts as absent (RFC 9110 section 6.6.1). A date has whole seconds only.
        let apparent = HTTPDate.parse(headers["date"], now: received).map {
            received.timeIntervalSince($0).rounded(.down)
        }
        // Section 5.1: the first value counts, and an invalid one is ignored.
        let announced = headers["age"]
            .flatMap { $0.split(separator: ",").first }
            .flatMap { CacheControl.deltaSeconds(String(HTTPFieldList.trimmed($0))) }
        let delay = max(0, received.timeIntervalSince(requested))
        return max(0, apparent ?? 0, (announced ?? 0) + delay)
    }
}
