import Synchronization

/// Cancels a render that may not have started yet.
package final class RenderCancellation: Sendable {
    private let state = Mutex<(deadline: RenderDeadline?, isCancelled: Bool)>((nil, false))

    package init() {}

    /// Creates the deadline of the work that starts now. Time spent waiting for a thread or for memory does not count.
    package func deadline(_ time: Duration) -> RenderDeadline {
        let deadline = RenderDeadline(.now + time)
        let isCancelled = state.withLock { state in
            state.deadline = deadline
            return state.isCancelled
        }
        if isCancelled { deadline.cancel() }
        return deadline
    }

    /// Stops the current render and every render that would start later with this cancellation.
    package func cancel() {
        let deadline = state.withLock { state in
            state.isCancelled = true
            return state.deadline
        }
        deadline?.cancel()
    }
}
