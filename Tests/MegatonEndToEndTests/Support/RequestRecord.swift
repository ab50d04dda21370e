import Synchronization

/// Paths and times of the requests to an origin.
final class RequestRecord: Sendable {
    private let requests = Mutex<[(path: String, at: ContinuousClock.Instant)]>([])

    func note(_ path: String) {
        let now = ContinuousClock.now
        requests.withLock { $0.append((path, now)) }
    }

    /// Time of the first request for a path.
    func first(_ path: String) -> ContinuousClock.Instant? {
        requests.withLock { requests in requests.first { $0.path == path }?.at }
    }
}

#if MEGATON_SANITIZE
    @_exported public import MegatonCore

    // As `Synchronization.Mutex`, for sanitizers; exported so that all files of this module see its members.
    typealias Mutex = MegatonCore.Mutex
#endif
