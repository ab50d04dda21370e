import Synchronization

/// The point at which a render must stop: its time limit, or its cancellation.
package final class RenderDeadline: Sendable {
    private let instant: ContinuousClock.Instant
    private let cancelled = Atomic(false)
    /// Whether the time limit stopped the render.
    private let timedOut = Atomic(false)

    package init(_ instant: ContinuousClock.Instant) { self.instant = instant }

    package func cancel() { cancelled.store(true, ordering: .relaxed) }

    /// Polled often, from the engines' threads.
    package var isExpired: Bool {
        if cancelled.load(ordering: .relaxed) { return true }
        if ContinuousClock.now < instant { return false }
        timedOut.store(true, ordering: .relaxed)
        return true
    }

    /// The error to throw instead of the engine's, if the deadline or a cancellation stopped the render.
    package var error: ImageError? {
        if cancelled.load(ordering: .relaxed) {
            return ImageError(.cancelled, "the rendering was cancelled.")
        }
        if timedOut.load(ordering: .relaxed) {
            return ImageError(.renderTimedOut, "rendering took longer than its limit and was ended.")
        }
        return nil
    }
}
