import Synchronization

/// Wakes one who waits; fired while nobody waits, it wakes the next one at once. Several firings are one.
package final class Trigger: Sendable {
    private enum State {
        case idle
        case fired
        case waiting(CheckedContinuation<Void, Never>)
    }

    private let state = Mutex(State.idle)

    package init() {}

    package func fire() {
        let continuation = state.withLock { state -> CheckedContinuation<Void, Never>? in
            if case .waiting(let continuation) = state {
                state = .idle
                return continuation
            }
            state = .fired
            return nil
        }
        continuation?.resume()
    }

    /// Returns when it is fired, or when the task is cancelled. One at a time may wait.
    package func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReady = state.withLock { state in
                    if case .fired = state {
                        state = .idle
                        return true
                    }
                    if Task.isCancelled { return true }
                    state = .waiting(continuation)
                    return false
                }
                if isReady { continuation.resume() }
            }
        } onCancel: {
            fire()
        }
    }
}
