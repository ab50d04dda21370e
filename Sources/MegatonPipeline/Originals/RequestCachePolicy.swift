internal import Foundation
internal import FoundationNetworking

/// Cache directives of a request: `URLRequest.cachePolicy` and its `Cache-Control` (RFC 9111 section 5.2.1).
///
/// `no-transform` has no effect on originals, which are stored unchanged. Requests for the same source coalesce only if
/// these are equal.
struct RequestCachePolicy: Hashable {
    /// How to use a cached entry.
    enum Verdict: Equatable {
        /// The entry answers the request.
        case use
        /// The origin is asked to revalidate the entry.
        case revalidate
        /// The origin is asked without a condition: there is no entry, or the request rejects it.
        case fetch
        /// The request fails: there is no usable entry, and the origin must not be contacted.
        case miss
    }

    private enum Origin {
        case whenNeeded
        /// With a condition.
        case always
        /// Regardless of cached entries.
        case unconditionally
        case never
    }

    private let control: CacheControl
    private let policy: URLRequest.CachePolicy
    /// Whether the response is for this caller only: see `URLRequest.isExclusive`.
    let isExclusive: Bool

    /// Policy of a request without directives, as nearly all are.
    static let `default` = RequestCachePolicy(CacheControl(nil), .useProtocolCachePolicy)

    private init(_ control: CacheControl, _ policy: URLRequest.CachePolicy) {
        self.control = control
        self.policy = policy
        isExclusive = false
    }

    init(_ request: URLRequest) {
        let field = request.value(forHTTPHeaderField: "Cache-Control")
        // Section 5.4: the equivalent of HTTP/1.0 clients.
        let pragma = CacheControl(request.value(forHTTPHeaderField: "Pragma"))
        control = CacheControl(field ?? (pragma.contains("no-cache") ? "no-cache" : nil))
        policy = request.cachePolicy
        isExclusive = request.isExclusive
    }

    /// Whether the request has no directives.
    var isDefault: Bool { self == .default }

    /// Whether the response may be stored.
    var allowsStorage: Bool { !isExclusive && !control.contains("no-store") }

    /// Whether the origin may be contacted at all.
    var allowsNetwork: Bool { origin != .never }

    /// Whether a cached entry may answer the request, possibly after revalidation.
    var readsCaches: Bool { origin != .unconditionally }

    /// Whether a cached entry may answer the request without contacting the origin.
    var allowsUnvalidated: Bool { origin == .whenNeeded || origin == .never }

    /// Maximum age of a remembered failure that may answer the request; nil for any age.
    var maximumFailureAge: Duration? {
        if origin == .always || origin == .unconditionally || control.contains("no-cache") { return .zero }
        if takesAnyAge { return nil }
        switch control.seconds("max-age") {
        case .absent: return nil
        case .invalid: return .zero
        case .value(let seconds): return .seconds(seconds)
        }
    }

    /// - Parameters:
    ///   - entry: nil if there is none, or none that matches the request by `Vary`.
    ///   - now: determines the age of the entry.
    func verdict(on entry: CachedData?, at now: Date) -> Verdict {
        let origin = origin
        if origin == .unconditionally { return .fetch }
        guard let entry else { return origin == .never ? .miss : .fetch }
        // The caller has explicitly asked for an entry of any age.
        if takesAnyAge { return .use }
        if origin == .always { return .revalidate }
        if isSatisfied(by: entry, at: now) { return .use }
        return origin == .never ? .miss : .revalidate
    }

    /// Whether an entry answers the request without revalidation in the background: it is fresh, or the request accepts
    /// its staleness.
    func accepts(_ entry: CachedData, at now: Date) -> Bool {
        (entry.staleness == nil || isWelcomeStale(entry)) && verdict(on: entry, at: now) == .use
    }

    /// The same for a decoded image. Without directives it is valid as long as it is in memory, as in Nuke.
    func accepts(_ container: ImageContainer, at now: Date) -> Bool {
        if isDefault { return true }
        if let entry = container.provenance?.entry(at: now) { return accepts(entry, at: now) }
        // Created by a program: its age is unknown.
        return allowsUnvalidated && !["no-cache", "max-age", "min-fresh"].contains(where: control.contains)
    }

    /// Whether the request forbids the unvalidated use of an entry, fresh or stale, that its origin allows.
    func forbids(_ entry: CachedData, at now: Date) -> Bool {
        if takesAnyAge { return false }
        return !allowsUnvalidated || control.contains("no-cache") || !isWithinLimits(entry, at: now)
    }

    private var origin: Origin {
        switch policy {
        case .returnCacheDataDontLoad: .never
        case .reloadRevalidatingCacheData: isExclusive ? .unconditionally : .always
        case .reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData: .unconditionally
        // With `no-cache` as well, neither an unvalidated entry nor the origin may be used: the more restrictive
        // directive counts (section 4.2.1).
        case _ where control.contains("only-if-cached"): .never
        case _ where isExclusive: .unconditionally
        default: control.contains("no-cache") ? .always : .whenNeeded
        }
    }

    private var takesAnyAge: Bool {
        !isExclusive && [.returnCacheDataElseLoad, .returnCacheDataDontLoad].contains(policy)
    }

    private func isSatisfied(by entry: CachedData, at now: Date) -> Bool {
        let mayBeUsed = entry.mayServeWhileRevalidating || isWelcomeStale(entry)
        return mayBeUsed && !control.contains("no-cache") && isWithinLimits(entry, at: now)
    }

    /// Whether the request accepts a stale entry (section 5.2.1.2), unless section 4.2.4 forbids it.
    private func isWelcomeStale(_ entry: CachedData) -> Bool {
        if takesAnyAge { return true }
        guard let staleness = entry.staleness, control.contains("max-stale") else { return false }
        // Directives of the origin are unknown if its header fields were too long to store.
        guard let headers = entry.metadata.headers else { return false }
        let answer = CacheControl(headers["cache-control"])
        let forbidding = ["no-cache", "must-revalidate", "proxy-revalidate", "s-maxage"]
        if forbidding.contains(where: answer.contains) { return false }
        if case .value(let seconds) = control.seconds("max-stale") { return staleness <= seconds }
        return control.isBare("max-stale")
    }

    private func isWithinLimits(_ entry: CachedData, at now: Date) -> Bool {
        let isFresh = entry.staleness == nil
        switch control.seconds("max-age") {
        case .absent: break
        case .invalid: return false
        case .value(let seconds):
            // RFC 8246 section 2: a reload does not revalidate an immutable response while that is fresh.
            let isImmutable = CacheControl(entry.metadata.headers?["cache-control"]).contains("immutable")
            guard isFresh && isImmutable || entry.metadata.currentAge(at: now) <= seconds else { return false }
        }
        switch control.seconds("min-fresh") {
        case .absent: return true
        case .invalid: return false
        case .value(let seconds): return isFresh && entry.metadata.lifetime >= seconds
        }
    }
}
