internal import Foundation

/// What makes two image requests the same work.
struct ImageLoadKey: Hashable, Sendable {
    /// Of what is fetched.
    let original: CacheKey
    /// Who wants it fresh must not get what another one was content with.
    let cachePolicy: RequestCachePolicy
    /// Who retries must not get the failure that another one was content with.
    let maximumFailureAge: Duration?
    let options: UInt16
    let thumbnail: ImageRequest.ThumbnailOptions?
    let processors: [String]
    /// Unique for a request that shares its answer with no other; nil for all others.
    private let exclusive: UUID?

    init(_ request: ImageRequest) {
        original = .original(of: request)
        cachePolicy = request.cachePolicy
        maximumFailureAge = request.failureAge
        options = request.options.rawValue
        thumbnail = request.thumbnail
        processors = request.processors.map(\.identifier)
        exclusive = cachePolicy.isExclusive ? UUID() : nil
    }
}
