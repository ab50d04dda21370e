import MegatonCluster
import Synchronization

/// When an origin was asked.
final class RequestLog: Sendable {
    private let times = Mutex<[ContinuousClock.Instant]>([])

    /// To be called for each request.
    func note() { times.withLock { $0.append(.now) } }

    /// When the first one came.
    var first: ContinuousClock.Instant? { times.withLock { $0.first } }
}
