internal import Foundation

/// How one who wants renditions wants to come by them: with another wish the same renditions are other work.
struct RenditionWish: Hashable, Sendable {
    /// How the caches are asked.
    enum Way: Sendable {
        /// The coordinator of flights: one look, and the lead of what is neither there nor being made.
        case flights
        /// One look, and no lead: others are not to wait for what is not made, or not kept.
        case lookUp
        case nothing
    }

    let way: Way
    /// Whether what is made may be kept.
    let keeps: Bool
    let policy: RequestCachePolicy
    /// How old a remembered failure may be that is accepted; nil for any age.
    let maximumFailureAge: Duration?
    /// What a source is fetched with.
    private let options: ImageRequest.Options
    /// Unique for a request that shares its answer with no other; nil for all others.
    private let exclusive: UUID?

    init(_ request: ImageRequest) {
        policy = request.cachePolicy
        maximumFailureAge = request.failureAge
        exclusive = policy.isExclusive ? UUID() : nil
        options = request.options.subtracting(.disableMemoryCache)
        keeps = !options.contains(.disableDiskCacheWrites) && policy.mayKeep
        let asksOrigin = !options.contains(.returnCacheDataDontLoad) && policy.asksOrigin
        if options.contains(.disableDiskCacheReads) || !policy.readsCaches {
            way = .nothing
        } else {
            way = keeps && asksOrigin ? .flights : .lookUp
        }
    }
}
