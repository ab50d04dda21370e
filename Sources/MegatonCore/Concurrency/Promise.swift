import Synchronization

/// A promise with a single waiter: resolved once, awaited by one task.
package final class Promise<Value: Sendable>: Sendable {
    private enum State {
        case empty
        case waiting(CheckedContinuation<Value, Never>)
        case resolved(Value)
    }

    private let state = Mutex(State.empty)

    package init() {}

    /// The first value counts; later ones are ignored.
    package func resolve(_ value: Value) {
        let continuation = state.withLock { state -> CheckedContinuation<Value, Never>? in
            switch state {
            case .resolved: return nil
            case .empty:
                state = .resolved(value)
                return nil
            case .waiting(let continuation):
                state = .resolved(value)
                return continuation
            }
        }
        continuation?.resume(returning: value)
    }

    /// Must not be awaited by two tasks at a time.
    package var value: Value {
        get async {
            await withCheckedContinuation { continuation in
                let value = state.withLock { state -> Value? in
                    switch state {
                    case .resolved(let value): return value
                    case .empty:
                        state = .waiting(continuation)
                        return nil
                    case .waiting: preconditionFailure("two tasks wait for a value that is for one")
                    }
                }
                if let value { continuation.resume(returning: value) }
            }
        }
    }
}
