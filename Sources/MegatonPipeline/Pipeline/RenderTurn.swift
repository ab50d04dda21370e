/// Whose turn it is to have a render thread: the most urgent one's.
///
/// Nobody holds a turn while he waits for memory: who has the memory may be waiting for the turn.
struct RenderTurn: Sendable {
    /// As wide as there are threads.
    let queue: TaskQueue
    /// Work that needs the render, and gives its priority; nil where nobody waits for it.
    let context: (any WorkParent)?
    /// In the place of a context's.
    var priority = WorkPriority.normal

    /// Runs work in its turn.
    ///
    /// - Throws: what the work throws; `.cancelled` if nobody waits for it any more.
    func take<Value: Sendable>(
        _ work: @escaping @Sendable () async throws(ImagePipeline.Error) -> Value
    ) async throws(ImagePipeline.Error) -> Value {
        guard let context else { return try await queue.perform(priority: priority, work) }
        return try await context.perform(on: queue, work)
    }
}
