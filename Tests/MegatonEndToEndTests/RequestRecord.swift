import Synchronization

/// When an origin was asked for what.
final class RequestRecord: Sendable {
    private let requests = Mutex<[(path: String, at: ContinuousClock.Instant)]>([])

    func note(_ path: String) {
        let now = ContinuousClock.now
        requests.withLock { $0.append((path, now)) }
    }

    /// The first time that a path was asked for.
    func first(_ path: String) -> ContinuousClock.Instant? {
        requests.withLock { requests in requests.first { $0.path == path }?.at }
    }
}
