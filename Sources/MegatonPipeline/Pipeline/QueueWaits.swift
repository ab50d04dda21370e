/// How long work has waited for its turn, by the stage that was to begin. What the stage took then is not in it.
///
/// A turn that comes at once takes some microseconds as well.
public struct QueueWaits: Sendable, Hashable {
    /// For the leave of the rate limiter, and for a place among the fetches.
    public var load = Duration.zero
    /// For a render thread to decode on. Renditions are decoded, resized and encoded in one turn: theirs is here.
    public var decode = Duration.zero
    /// For a render thread, before each processor.
    public var process = Duration.zero
    /// For memory to decode in; see ``MemoryBudget``.
    public var memory = Duration.zero

    public init() {}
}
