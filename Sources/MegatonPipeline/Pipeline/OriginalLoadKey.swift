internal import FoundationNetworking

/// What makes two fetches the same work. Options are no part of it: who reloads shares the download with who does not.
struct OriginalLoadKey: Hashable, Sendable {
    let original: CacheKey
    /// Of `URLRequest.CachePolicy`: it travels with the request, and loaders heed it.
    let cachePolicy: UInt
    /// Whether no cache is asked at all.
    var isReload = false

    init(_ request: ImageRequest) {
        original = .original(of: request)
        cachePolicy = request.urlRequest?.cachePolicy.rawValue ?? 0
    }

    init(_ source: Source) {
        original = source.key
        if case .remote(let request) = source.place {
            cachePolicy = request.cachePolicy.rawValue
        } else {
            cachePolicy = 0
        }
    }
}
