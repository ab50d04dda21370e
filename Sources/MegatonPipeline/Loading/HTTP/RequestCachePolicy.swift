internal import Foundation
internal import FoundationNetworking

/// What a request wants of caches: `URLRequest.cachePolicy`, and its `Cache-Control` (RFC 9111 section 5.2.1).
///
/// `no-transform` means nothing for originals, which are kept as they are. Two that are equal make two requests for the
/// same source the same work.
struct RequestCachePolicy: Hashable {
    /// What is to be done with what a cache has.
    enum Verdict: Equatable {
        /// It is the answer.
        case use
        /// The origin is asked whether it still holds.
        case revalidate
        /// The origin is asked without a condition: there is nothing, or it is not wanted.
        case fetch
        /// The request has no answer, as the origin must not be asked.
        case miss
    }

    private enum Origin {
        case whenNeeded
        /// With a condition.
        case always
        /// Whatever the caches have.
        case unconditionally
        case never
    }

    private let control: CacheControl
    private let policy: URLRequest.CachePolicy
    /// Whether the answer is for this caller alone: see `URLRequest.isExclusive`.
    let isExclusive: Bool

    /// Of a request that says nothing, as nearly all do.
    static let silent = RequestCachePolicy(CacheControl(nil), .useProtocolCachePolicy)

    private init(_ control: CacheControl, _ policy: URLRequest.CachePolicy) {
        self.control = control
        self.policy = policy
        isExclusive = false
    }

    init(_ request: URLRequest) {
        let field = request.value(forHTTPHeaderField: "Cache-Control")
        // Section 5.4: what clients of HTTP/1.0 say in its place.
        let pragma = CacheControl(request.value(forHTTPHeaderField: "Pragma"))
        control = CacheControl(field ?? (pragma.contains("no-cache") ? "no-cache" : nil))
        policy = request.cachePolicy
        isExclusive = request.isExclusive
    }

    /// Whether everything is left to the origin.
    var isSilent: Bool { self == .silent }

    /// Whether the answer may be kept.
    var mayKeep: Bool { !isExclusive && !control.contains("no-store") }

    /// Whether the origin may be asked at all.
    var asksOrigin: Bool { origin != .never }

    /// Whether what a cache has can be the answer, be it after the origin has confirmed it.
    var readsCaches: Bool { origin != .unconditionally }

    /// Whether what a cache has can be the answer without the origin being asked.
    var takesUnasked: Bool { origin == .whenNeeded || origin == .never }

    /// How old a remembered failure may be that answers the request; nil for any age.
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
    ///   - entry: nil where there is none, or none that matches the request by `Vary`.
    ///   - now: by which its age is told.
    func verdict(on entry: CachedData?, at now: Date) -> Verdict {
        let origin = origin
        if origin == .unconditionally { return .fetch }
        guard let entry else { return origin == .never ? .miss : .fetch }
        // Whatever its age: who says so means it.
        if takesAnyAge { return .use }
        if origin == .always { return .revalidate }
        if isSatisfied(by: entry, at: now) { return .use }
        return origin == .never ? .miss : .revalidate
    }

    /// Whether an entry is the answer, and nobody need be asked behind it: it is fresh, or stale and welcome all the
    /// same.
    func isContent(with entry: CachedData, at now: Date) -> Bool {
        (entry.staleness == nil || isWelcomeStale(entry)) && verdict(on: entry, at: now) == .use
    }

    /// The same for a decoded picture. Where nothing is said it is good as long as it is in memory, as in Nuke.
    func isContent(with container: ImageContainer, at now: Date) -> Bool {
        if isSilent { return true }
        if let entry = container.provenance?.entry(at: now) { return isContent(with: entry, at: now) }
        // Made by a program: nobody knows how old it is.
        return takesUnasked && !["no-cache", "max-age", "min-fresh"].contains(where: control.contains)
    }

    /// Whether the request forbids to use an entry unasked that its origin allows to be used, fresh or stale.
    func refuses(_ entry: CachedData, at now: Date) -> Bool {
        if takesAnyAge { return false }
        return !takesUnasked || control.contains("no-cache") || !isWithinLimits(entry, at: now)
    }

    private var origin: Origin {
        switch policy {
        case .returnCacheDataDontLoad: .never
        case .reloadRevalidatingCacheData: isExclusive ? .unconditionally : .always
        case .reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData: .unconditionally
        // With `no-cache` beside it nothing is used unasked, and nobody is asked: the more restrictive one counts
        // (section 4.2.1).
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

    /// Whether the request takes the entry though it is stale: section 5.2.1.2, where section 4.2.4 does not forbid it.
    private func isWelcomeStale(_ entry: CachedData) -> Bool {
        if takesAnyAge { return true }
        guard let staleness = entry.staleness, control.contains("max-stale") else { return false }
        // What the origin has said about it is not known of entries whose header fields were too long.
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
            // RFC 8246 section 2: a reload is no reason to ask about what never changes while it is fresh.
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
