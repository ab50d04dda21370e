internal import Foundation

/// Cache and network options of a rendition request. Requests are coalesced only if these are equal.
struct RenditionRequestOptions: Hashable, Sendable {
    /// Kind of access to the caches.
    enum CacheAccess: Sendable {
        /// Single flight: one lookup by the coordinator, which makes the caller the leader for keys neither cached nor
        /// under way.
        case singleFlight
        /// One lookup without a flight: others must not wait for results that are not made, or not stored.
        case lookUp
        case bypass
    }

    let cacheAccess: CacheAccess
    /// Whether results may be stored.
    let allowsStorage: Bool
    let policy: RequestCachePolicy
    /// Maximum age of a remembered failure that is accepted; nil for any age.
    let maximumFailureAge: Duration?
    /// Options that apply to the fetch of the source.
    private let fetchOptions: ImageRequest.Options
    /// Unique for a request whose response is not shared with any other; nil for all others.
    private let exclusive: UUID?

    init(_ request: ImageRequest) {
        policy = request.cachePolicy
        maximumFailureAge = request.failureAge
        exclusive = policy.isExclusive ? UUID() : nil
        fetchOptions = request.options.subtracting(.disableMemoryCache)
        allowsStorage = !request.options.contains(.disableDiskCacheWrites) && policy.allowsStorage
        let allowsNetwork = !request.options.contains(.returnCacheDataDontLoad) && policy.allowsNetwork
        if request.options.contains(.disableDiskCacheReads) || !policy.readsCaches {
            cacheAccess = .bypass
        } else {
            cacheAccess = allowsStorage && allowsNetwork ? .singleFlight : .lookUp
        }
    }
}
