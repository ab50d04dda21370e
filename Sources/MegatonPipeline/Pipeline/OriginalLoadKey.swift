internal import Foundation

/// What makes two fetches the same work. Options are no part of it: who reloads shares the download with who does not.
struct OriginalLoadKey: Hashable, Sendable {
    let original: CacheKey
    /// Who wants it fresh must not get what another one was content with; and it travels with the request, where
    /// loaders heed it.
    let cachePolicy: RequestCachePolicy
    /// Who retries must not get the failure that another one was content with.
    let maximumFailureAge: Duration?
    /// Unique for a request that shares its answer with no other; nil for all others.
    private let exclusive: UUID?
    /// Whether no cache is asked at all.
    var isReload = false
    /// Whether a stale entry was served, and this is work for a caller that cannot use it.
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
