import Synchronization

/// Signal for one waiter. A signal without a waiter wakes the next one at once; several signals count as one.
package final class AsyncSignal: Sendable {
    private enum State {
        case idle
        case signaled
        case waiting(CheckedContinuation<Void, Never>)
    }

    private let state = Mutex(State.idle)

    package init() {}

    package func signal() {
        let continuation = state.withLock { state -> CheckedContinuation<Void, Never>? in
            if case .waiting(let continuation) = state {
                state = .idle
                return continuation
            }
            state = .signaled
            return nil
        }
        continuation?.resume()
    }

    /// Returns on a signal, or if the task is cancelled. Only one task may wait at a time.
    package func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReady = state.withLock { state in
                    if case .signaled = state {
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
            signal()
        }
    }
}
