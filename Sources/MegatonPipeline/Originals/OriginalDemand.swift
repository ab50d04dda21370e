internal import Foundation
import Synchronization

/// Identity of a fetch: loads with equal keys are coalesced. Options are not part of it: a reload shares the download.
struct OriginalLoadKey: Hashable, Sendable {
    let original: CacheKey
    /// A request for a fresh original must not get one that another request accepted. Loaders that respect the policy
    /// receive it with the request.
    let cachePolicy: RequestCachePolicy
    /// A retry must not get a failure that another request accepted.
    let maximumFailureAge: Duration?
    /// Unique for a request whose response is not shared with any other; nil for all others.
    private let exclusive: UUID?
    /// Whether no cache is asked at all.
    var isReload = false
    /// Whether this load follows one that served a stale entry, for a caller that cannot use it.
    var isRefresh = false
    /// Whether this load follows one that ended early, for a caller that needs the whole original.
    var isWhole = false
    /// The validators, and the responder, of the results that this load may confirm without loading the original.
    var confirming: [String?]?

    init(_ request: ImageRequest) { self.init(.original(of: request), request.cachePolicy, request.failureAge) }

    init(_ source: Source) { self.init(source.key, source.cachePolicy, source.request.failureAge) }

    private init(_ original: CacheKey, _ policy: RequestCachePolicy, _ failureAge: Duration?) {
        self.original = original
        cachePolicy = policy
        maximumFailureAge = failureAge
        exclusive = policy.isExclusive ? UUID() : nil
    }
}

/// Tracks which in-flight originals are wanted, to be stored or for previews. One is wanted if any waiting request that
/// shares its download wants it.
final class OriginalDemand: Sendable {
    /// One request's claim on an original, until `end` or deinitialization.
    final class Claim: Sendable {
        private let demand: OriginalDemand
        private let key: OriginalLoadKey
        private let isOpen = Mutex(true)

        fileprivate init(_ demand: OriginalDemand, _ key: OriginalLoadKey) {
            self.demand = demand
            self.key = key
        }

        deinit { end() }

        func end() {
            let wasOpen = isOpen.withLock { isOpen in
                defer { isOpen = false }
                return isOpen
            }
            if wasOpen { demand.remove(key) }
        }
    }

    private let counts = Mutex<[OriginalLoadKey: Int]>([:])

    /// - Returns: nil if the request does not want it.
    func claim(_ key: OriginalLoadKey, if isWanted: Bool) -> Claim? {
        guard isWanted else { return nil }
        counts.withLock { $0[key, default: 0] += 1 }
        return Claim(self, key)
    }

    func contains(_ key: OriginalLoadKey) -> Bool { counts.withLock { $0[key] != nil } }

    private func remove(_ key: OriginalLoadKey) {
        counts.withLock { counts in
            let count = counts[key] ?? 0
            counts[key] = count > 1 ? count - 1 : nil
        }
    }
}
