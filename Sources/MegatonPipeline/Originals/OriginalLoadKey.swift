internal import Foundation

/// Identity of a fetch: loads with equal keys are coalesced. Options are not part of it: a reload shares the download.
struct OriginalLoadKey: Hashable, Sendable {
    let original: CacheKey
    /// A request for a fresh original must not get one that another request accepted. Loaders that respect the policy
    /// receive it with the request.
    let cachePolicy: RequestCachePolicy
    /// A retry must not get a failure that another request accepted.
    let maximumFailureAge: Duration?
    /// Unique for a request whose response is not shared with any other; nil for all others.
    private let exclusive: UUID?
    /// Whether no cache is asked at all.
    var isReload = false
    /// Whether this load follows one that served a stale entry, for a caller that cannot use it.
    var isRefresh = false

    init(_ request: ImageRequest) { self.init(.original(of: request), request.cachePolicy, request.failureAge) }

    init(_ source: Source) { self.init(source.key, source.cachePolicy, source.request.failureAge) }

    private init(_ original: CacheKey, _ policy: RequestCachePolicy, _ failureAge: Duration?) {
        self.original = original
        cachePolicy = policy
        maximumFailureAge = failureAge
        exclusive = policy.isExclusive ? UUID() : nil
    }
}
