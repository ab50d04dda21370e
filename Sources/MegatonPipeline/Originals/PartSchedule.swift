import Synchronization

/// Decides when the bytes of an unfinished download are inspected: immediately, and then at intervals.
final class PartSchedule: Sendable {
    private let interval: Duration
    private let last = Mutex<ContinuousClock.Instant?>(nil)

    init(interval: Duration) { self.interval = interval }

    var isDue: Bool { last.withLock { $0.map { $0.duration(to: .now) >= interval } ?? true } }

    /// - Returns: whether an inspection was due; if so, the next interval starts.
    func take() -> Bool {
        last.withLock { last in
            if let last, last.duration(to: .now) < interval { return false }
            last = .now
            return true
        }
    }
}
