/// How one who wants an original wants to come by it.
struct OriginalWish: Sendable {
    var priority = WorkPriority.normal
    /// Whether what a cache has will do.
    var readsCaches = true
    /// Whether the origin may be asked.
    var asksOrigin = true
    /// Whether a closure waits for a place.
    var waitsForPlace = true
    /// Whether what is fetched is to be kept. Where it is not, others who share the download may still want that.
    var keeps: Bool
    /// Whether the caller wants the answer itself and not an image: any answer to a request of its own kind (a part, 304,
    /// an empty body), and a stale entry while it is refreshed behind the answer (RFC 5861 section 3).
    var wantsAnswer = false

    init(keeps: Bool) { self.keeps = keeps }

    init(_ request: ImageRequest, keeps: Bool) {
        priority = request.priority
        let policy = request.cachePolicy
        readsCaches = !request.options.contains(.disableDiskCacheReads) && policy.readsCaches
        asksOrigin = !request.options.contains(.returnCacheDataDontLoad) && policy.asksOrigin
        waitsForPlace = !request.options.contains(.skipDataLoadingQueue)
        self.keeps = keeps
    }
}

extension ImagePipeline.DataCachePolicy {
    /// Nuke's table: whether the original of a request is kept. By `automatic` it is what was asked for where no
    /// processor changes it.
    func keepsOriginal(of request: ImageRequest) -> Bool {
        if request.options.contains(.disableDiskCacheWrites) || request.isLocal { return false }
        return switch self {
        case .storeAll, .storeOriginalData: true
        case .automatic: request.processors.isEmpty
        case .storeEncodedImages, .storeNothing: false
        }
    }
}
