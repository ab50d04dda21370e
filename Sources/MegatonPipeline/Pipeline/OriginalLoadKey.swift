/// What makes two fetches the same work. Options are no part of it: who reloads shares the download with who does not.
struct OriginalLoadKey: Hashable, Sendable {
    let original: CacheKey
    /// Who wants it fresh must not get what another one was content with; and it travels with the request, where
    /// loaders heed it.
    let cachePolicy: RequestCachePolicy
    /// Who retries must not get the failure that another one was content with.
    let maximumFailureAge: Duration?
    /// Whether no cache is asked at all.
    var isReload = false

    init(_ request: ImageRequest) {
        original = .original(of: request)
        cachePolicy = request.cachePolicy
        maximumFailureAge = request.failureAge
    }

    init(_ source: Source) {
        original = source.key
        cachePolicy = source.cachePolicy
        maximumFailureAge = source.request.failureAge
    }
}
