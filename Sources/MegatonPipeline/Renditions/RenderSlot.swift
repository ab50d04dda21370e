/// Slot for a render thread, assigned by priority.
///
/// No slot may be held during a wait for memory: the holder of the memory may be waiting for the slot.
struct RenderSlot: Sendable {
    /// Queue with as many slots as there are threads.
    let queue: TaskQueue
    /// Work item that needs the render and determines its priority; nil if there is none.
    let context: (any WorkParent)?
    /// Priority if there is no context.
    var priority = WorkPriority.normal

    /// Runs work in a slot.
    ///
    /// - Throws: the error of the work; `.cancelled` if no caller waits for it any more.
    func perform<Value: Sendable>(
        _ work: @escaping @Sendable () async throws(ImageError) -> Value
    ) async throws(ImageError) -> Value {
        guard let context else { return try await queue.perform(priority: priority, work) }
        return try await context.perform(on: queue, work)
    }
}
