import Synchronization

/// Waiters in this process, by the key of the flight that they wait for.
final class FlightWaiters: Sendable {
    private struct State {
        var waiting: [String: [Int: Waiter]] = [:]
        var nextTicket = 0
    }

    private final class Waiter: Sendable {
        let landed = AsyncSignal()
    }

    private let state = Mutex(State())

    /// Registers before the flight is looked up, so that a landing between the lookup and the wait is not missed.
    func register(_ key: String) -> Int {
        state.withLock { state in
            state.nextTicket += 1
            state.waiting[key, default: [:]][state.nextTicket] = Waiter()
            return state.nextTicket
        }
    }

    func unregister(_ key: String, ticket: Int) {
        state.withLock { state in
            state.waiting[key]?[ticket] = nil
            if state.waiting[key]?.isEmpty == true { state.waiting[key] = nil }
        }
    }

    /// Waits for the landing, no longer than `limit`, and unregisters.
    func wait(_ key: String, ticket: Int, atMost limit: Duration) async {
        guard let waiter = state.withLock({ $0.waiting[key]?[ticket] }) else { return }
        await TimeLimit.wait(atMost: limit) { await waiter.landed.wait() }
        unregister(key, ticket: ticket)
    }

    func landed(_ key: String) {
        for waiter in state.withLock({ $0.waiting[key].map { Array($0.values) } ?? [] }) { waiter.landed.signal() }
    }

    /// Wakes all waiters, so that they look again: the subscription was down, and landings meanwhile were missed.
    func wakeAll() {
        for waiter in state.withLock({ $0.waiting.values.flatMap(\.values) }) { waiter.landed.signal() }
    }
}
