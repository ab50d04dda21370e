internal import Foundation
internal import FoundationNetworking

/// What a request wants of caches: `URLRequest.cachePolicy`, and its `Cache-Control` (RFC 9111 section 5.2.1).
///
/// `max-stale` is not heeded, as a cache may (section 5.2.1.2): what may be stale is the origin's to say.
/// `no-transform` means nothing for originals, which are kept as they are.
struct RequestCachePolicy: Equatable {
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

    init(_ request: URLRequest) {
        let field = request.value(forHTTPHeaderField: "Cache-Control")
        // Section 5.4: what clients of HTTP/1.0 say in its place.
        let pragma = CacheControl(request.value(forHTTPHeaderField: "Pragma"))
        control = CacheControl(field ?? (pragma.contains("no-cache") ? "no-cache" : nil))
        policy = request.cachePolicy
    }

    /// Whether the answer may be kept.
    var mayKeep: Bool { !control.contains("no-store") }

    /// - Parameters:
    ///   - entry: nil where there is none, or none that matches the request by `Vary`.
    ///   - now: by which its age is told.
    func verdict(on entry: CachedData?, at now: Date) -> Verdict {
        let origin = origin
        if origin == .unconditionally { return .fetch }
        guard let entry else { return origin == .never ? .miss : .fetch }
        // Whatever its age: who says so means it.
        if [.returnCacheDataElseLoad, .returnCacheDataDontLoad].contains(policy) { return .use }
        if origin == .always { return .revalidate }
        if isSatisfied(by: entry, at: now) { return .use }
        return origin == .never ? .miss : .revalidate
    }

    private var origin: Origin {
        switch policy {
        case .returnCacheDataDontLoad: .never
        case .reloadRevalidatingCacheData: .always
        case .reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData: .unconditionally
        // With `no-cache` beside it nothing is used unasked, and nobody is asked: the more restrictive one counts
        // (section 4.2.1).
        case _ where control.contains("only-if-cached"): .never
        default: control.contains("no-cache") ? .always : .whenNeeded
        }
    }

    private func isSatisfied(by entry: CachedData, at now: Date) -> Bool {
        let isFresh = entry.staleness == nil
        guard isFresh || entry.mayServeWhileRevalidating, !control.contains("no-cache") else { return false }
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
