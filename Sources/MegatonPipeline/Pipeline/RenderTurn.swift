/// Whose turn it is to have a render thread: the most urgent one's.
struct RenderTurn: Sendable {
    /// As wide as there are threads.
    let queue: TaskQueue
    /// Work that needs the render, and gives its priority; nil where nobody waits for it.
    let context: WorkContext<RenditionMaker.Settled>?
    /// In the place of a context's.
    let priority: WorkPriority

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
