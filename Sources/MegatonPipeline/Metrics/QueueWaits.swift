/// Time that work waited in queues, by the stage that was about to start. The duration of the stage is not included.
///
/// A start without a queue takes some microseconds as well.
public struct QueueWaits: Sendable, Hashable {
    /// Waits for the rate limiter, and for a fetch slot.
    public var load = Duration.zero
    /// Waits for a render thread to decode on. Renditions are decoded, resized and encoded in one slot: they wait here.
    public var decode = Duration.zero
    /// Waits for a render thread, before each processor.
    public var process = Duration.zero
    /// Waits for memory to decode in; see ``MemoryBudget``.
    public var memory = Duration.zero

    package init() {}
}
