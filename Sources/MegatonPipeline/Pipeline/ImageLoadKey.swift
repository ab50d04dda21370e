internal import Foundation

/// Identity of an image request: requests with equal keys are coalesced.
struct ImageLoadKey: Hashable, Sendable {
    /// Key of the fetched original.
    let original: CacheKey
    /// A request for a fresh image must not get one that another request accepted.
    let cachePolicy: RequestCachePolicy
    /// A retry must not get a failure that another request accepted.
    let maximumFailureAge: Duration?
    let options: UInt16
    let thumbnail: ImageRequest.ThumbnailOptions?
    let processors: [String]
    /// Unique for a request whose response is not shared with any other; nil for all others.
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
