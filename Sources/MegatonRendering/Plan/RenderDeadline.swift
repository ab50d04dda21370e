import Synchronization

/// The point at which a render must stop: its time limit, or its cancellation.
package final class RenderDeadline: Sendable {
    private let instant: ContinuousClock.Instant
    private let cancelled = Atomic(false)
    /// Whether the time limit stopped the render.
    private let timedOut = Atomic(false)

    package init(_ instant: ContinuousClock.Instant) { self.instant = instant }

    func cancel() { cancelled.store(true, ordering: .relaxed) }

    /// Polled often, from the engines' threads.
    package var isExpired: Bool {
        if cancelled.load(ordering: .relaxed) { return true }
        if ContinuousClock.now < instant { return false }
        timedOut.store(true, ordering: .relaxed)
        return true
    }

    /// Whether the deadline at an address is expired: 1 or 0. For codecs in C, whose caller keeps the deadline alive.
    static let isExpired: @convention(c) (UnsafeMutableRawPointer?) -> Int32 = { context in
        guard let context else { return 0 }
        return Unmanaged<RenderDeadline>.fromOpaque(context).takeUnretainedValue().isExpired ? 1 : 0
    }

    /// The error to throw instead of the engine's, if the deadline or a cancellation stopped the render.
    package var error: ImageError? {
        if cancelled.load(ordering: .relaxed) {
            return ImageError(.cancelled, "the rendering was cancelled.")
        }
        if timedOut.load(ordering: .relaxed) {
            return ImageError(
                .renderTimedOut,
                "rendering took longer than its limit (RenderLimits.time) and was ended."
            )
        }
        return nil
    }
}

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
