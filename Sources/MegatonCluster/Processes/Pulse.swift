import Synchronization

/// Notes the ends of a loop's rounds, of those that fail too: a loop that hangs ends none.
///
/// It shows whether a process makes progress, not whether Redis answers: a process that is started again because Redis
/// is away would be no better off.
final class Pulse: Sendable {
    /// Time without the end of a round after which a loop counts as hung. Commands to Redis end within seconds, also if
    /// it does not answer.
    static let limit: Duration = .seconds(120)

    private let last = Mutex<ContinuousClock.Instant?>(nil)

    /// Notes the end of a round.
    func beat(at instant: ContinuousClock.Instant = .now) { last.withLock { $0 = instant } }

    /// Whether no round has ended for longer than the limit; false before the first end, as the process may still wait
    /// for its Redis.
    func isOverdue(after limit: Duration = Pulse.limit, at now: ContinuousClock.Instant = .now) -> Bool {
        last.withLock { $0 }.map { $0.duration(to: now) > limit } ?? false
    }
}
