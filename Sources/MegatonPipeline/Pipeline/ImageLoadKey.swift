internal import FoundationNetworking

/// What makes two image requests the same work.
struct ImageLoadKey: Hashable, Sendable {
    /// Of what is fetched.
    let original: CacheKey
    /// Of `URLRequest.CachePolicy`: who wants it fresh must not get what another one was content with.
    let cachePolicy: UInt
    let options: UInt16
    let thumbnail: ImageRequest.ThumbnailOptions?
    let processors: [String]

    init(_ request: ImageRequest) {
        original = .original(of: request)
        cachePolicy = request.urlRequest?.cachePolicy.rawValue ?? 0
        options = request.options.rawValue
        thumbnail = request.thumbnail
        processors = request.processors.map(\.identifier)
    }
}
