import Synchronization

/// A clock that a test sets; nothing sleeps on it.
final class SteppedClock: Clock {
    struct Instant: InstantProtocol {
        let offset: Duration

        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (one: Instant, other: Instant) -> Bool { one.offset < other.offset }
    }

    private let elapsed = Mutex(Duration.zero)

    var now: Instant { Instant(offset: elapsed.withLock { $0 }) }
    var minimumResolution: Duration { .nanoseconds(1) }

    func advance(by duration: Duration) { elapsed.withLock { $0 += duration } }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws { advance(by: now.duration(to: deadline)) }
}
