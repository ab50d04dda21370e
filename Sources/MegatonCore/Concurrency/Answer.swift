import Synchronization

/// A promise with one producer and one waiter, which may come in either order.
package final class Answer<Value: Sendable>: Sendable {
    private struct State {
        var value: Value?
        var waiting: CheckedContinuation<Value, Never>?
    }

    private let state = Mutex(State())

    package init() {}

    /// Must be called once.
    package func give(_ value: Value) {
        let waiting = state.withLock { state in
            state.value = value
            return state.waiting.take()
        }
        waiting?.resume(returning: value)
    }

    /// Must be awaited once. The producer must also resolve it on cancellation.
    package var value: Value {
        get async {
            await withCheckedContinuation { continuation in
                let value = state.withLock { state -> Value? in
                    if state.value == nil { state.waiting = continuation }
                    return state.value
                }
                if let value { continuation.resume(returning: value) }
            }
        }
    }
}
