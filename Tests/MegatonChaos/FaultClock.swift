import Synchronization

/// Says which fault is being injected, to those that watch beside the ``Nemesis``.
final class FaultClock: Sendable {
    private struct State {
        var fault: Fault?
        var last: Fault?
        /// Until then a Redis may be unreachable.
        var excusedUntil = ContinuousClock.now
    }

    private let state = Mutex(State())
    private let start = ContinuousClock.now

    /// Time after a fault of a Redis or of its network until all processes are connected again: a command has 5 s, and
    /// a pause before a new connection at most 2 s. The rest is for a busy machine.
    private static let reconnection: Duration = .seconds(8)

    func begin(_ fault: Fault) {
        state.withLock { state in
            state.fault = fault
            state.last = fault
        }
    }

    func end() {
        state.withLock { state in
            if state.fault?.takesRedisAway == true { state.excusedUntil = .now + Self.reconnection }
            state.fault = nil
        }
    }

    /// Whether jobs may stand still because a Redis is, or was a moment ago, unreachable.
    var excusesStandstill: Bool {
        state.withLock { $0.fault?.takesRedisAway == true || $0.excusedUntil > .now }
    }

    /// Seconds since the run began.
    func seconds(at instant: ContinuousClock.Instant = .now) -> String {
        Stage.seconds(start.duration(to: instant))
    }

    /// The current fault, or the last one, for messages.
    var text: String {
        state.withLock { state in
            if let fault = state.fault { return "during \(fault.rawValue)" }
            return state.last.map { "after \($0.rawValue)" } ?? "before the first fault"
        }
    }
}
