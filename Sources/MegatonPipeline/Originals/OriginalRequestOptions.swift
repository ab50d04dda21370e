/// Cache and network options of a request for an original.
struct OriginalRequestOptions: Sendable {
    var priority = WorkPriority.normal
    /// Whether a cache entry may be the answer.
    var readsCaches = true
    /// Whether the origin may be asked.
    var allowsNetwork = true
    /// Whether a closure waits for a fetch slot.
    var waitsForSlot = true
    /// Whether the fetched bytes are to be stored. Other requests that share the download may want that in any case.
    var storesOriginal: Bool
    /// Whether the caller wants the response itself and not an image. It then accepts any response to its own kind of
    /// request (a part, 304, an empty body), and a stale entry during a background revalidation (RFC 5861 section 3).
    var wantsResponse = false
    /// Metadata of results that the caller has, if an original without bytes that confirms them is enough: if no cache
    /// has the original, the origin is asked with their validators.
    var confirming: CachedData.Metadata?

    /// Decides whether the first bytes of the original are enough; nil if the caller needs all of them.
    var sufficientScans: SufficientScans?

    init(storesOriginal: Bool) { self.storesOriginal = storesOriginal }

    init(_ request: ImageRequest, storesOriginal: Bool) {
        priority = request.priority
        let policy = request.cachePolicy
        readsCaches = !request.options.contains(.disableDiskCacheReads) && policy.readsCaches
        allowsNetwork = !request.options.contains(.returnCacheDataDontLoad) && policy.allowsNetwork
        waitsForSlot = !request.options.contains(.skipDataLoadingQueue)
        self.storesOriginal = storesOriginal
    }
}

extension ImagePipeline.DataCachePolicy {
    /// Nuke's table: whether the original of a request is stored. `automatic` stores the requested result, which is the
    /// original if no processor changes it.
    func storesOriginal(of request: ImageRequest) -> Bool {
        if request.options.contains(.disableDiskCacheWrites) || request.isLocal { return false }
        return switch self {
        case .storeAll, .storeReused, .storeOriginalData: true
        case .automatic: request.processors.isEmpty
        case .storeEncodedImages, .storeNothing: false
        }
    }
}
