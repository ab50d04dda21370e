import Synchronization

/// The point at which a render must stop: its time limit, or its cancellation.
final class RenderDeadline: Sendable {
    private let instant: ContinuousClock.Instant
    private let cancelled = Atomic(false)
    /// Whether the time limit stopped the render.
    private let expired = Atomic(false)

    init(_ instant: ContinuousClock.Instant) { self.instant = instant }

    func cancel() { cancelled.store(true, ordering: .relaxed) }

    /// Polled often, from the engines' threads.
    var mustEnd: Bool {
        if cancelled.load(ordering: .relaxed) { return true }
        if ContinuousClock.now < instant { return false }
        expired.store(true, ordering: .relaxed)
        return true
    }

    /// The error to throw instead of the engine's, if the deadline or a cancellation stopped the render.
    var error: ImagePipeline.Error? {
        if cancelled.load(ordering: .relaxed) {
            return ImagePipeline.Error(.cancelled, "the rendering was cancelled.")
        }
        if expired.load(ordering: .relaxed) {
            return ImagePipeline.Error(.renderTimedOut, "rendering took longer than its limit and was ended.")
        }
        return nil
    }
}
