import Synchronization

/// Cancels renders that may not have begun yet.
final class RenderCancellation: Sendable {
    private let state = Mutex<(deadline: RenderDeadline?, isCancelled: Bool)>((nil, false))

    /// The deadline of what begins now: what waited for a thread or for memory has not begun.
    func deadline(_ time: Duration) -> RenderDeadline {
        let deadline = RenderDeadline(.now + time)
        let isCancelled = state.withLock { state in
            state.deadline = deadline
            return state.isCancelled
        }
        if isCancelled { deadline.cancel() }
        return deadline
    }

    /// Ends the render under way, and whatever would begin after it.
    func cancel() {
        let deadline = state.withLock { state in
            state.isCancelled = true
            return state.deadline
        }
        deadline?.cancel()
    }
}
