import Synchronization

/// When a render must end: at its time limit, or when nobody wants it any more.
final class RenderDeadline: Sendable {
    private let instant: ContinuousClock.Instant
    private let cancelled = Atomic(false)
    /// Whether the time limit was what ended the render.
    private let expired = Atomic(false)

    init(_ instant: ContinuousClock.Instant) { self.instant = instant }

    func cancel() { cancelled.store(true, ordering: .relaxed) }

    /// Asked from the engines' threads, often.
    var mustEnd: Bool {
        if cancelled.load(ordering: .relaxed) { return true }
        if ContinuousClock.now < instant { return false }
        expired.store(true, ordering: .relaxed)
        return true
    }

    /// The error in the place of the engine's, where this is what ended it.
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
