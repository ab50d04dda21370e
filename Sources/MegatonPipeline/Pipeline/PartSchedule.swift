import Synchronization

/// When the bytes of an unfinished download are worth a look: at once, and then once in a while.
final class PartSchedule: Sendable {
    private let interval: Duration
    private let last = Mutex<ContinuousClock.Instant?>(nil)

    init(interval: Duration) { self.interval = interval }

    var isDue: Bool { last.withLock { $0.map { $0.duration(to: .now) >= interval } ?? true } }

    /// - Returns: whether it was due; if so it is not any more.
    func take() -> Bool {
        last.withLock { last in
            if let last, last.duration(to: .now) < interval { return false }
            last = .now
            return true
        }
    }
}
