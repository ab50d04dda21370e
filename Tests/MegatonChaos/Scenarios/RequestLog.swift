import MegatonCluster
import Synchronization

/// Times of the requests to an origin.
final class RequestLog: Sendable {
    private let times = Mutex<[ContinuousClock.Instant]>([])

    /// Records a request; to be called for each.
    func note() { times.withLock { $0.append(.now) } }

    /// Time of the first request.
    var first: ContinuousClock.Instant? { times.withLock { $0.first } }
}

#if MEGATON_SANITIZE
    @_exported public import MegatonCore

    // As `Synchronization.Mutex`, for sanitizers; exported so that all files of this module see its members.
    typealias Mutex = MegatonCore.Mutex
#endif
