/// A node as its job sees it. May be kept and used from any thread; after the node's end it does nothing.
struct WorkContext<Value: Sendable>: Sendable {
    let node: WorkNode<Value>

    /// Whether anybody still waits for the result.
    var isOpen: Bool { node.isOpen }
    /// The highest of those who wait.
    var priority: WorkPriority { node.priority }

    // MARK: - Telling

    /// - Parameter total: 0 while it is not known.
    func send(completed: Int64, total: Int64) { node.send(.progress(completed: completed, total: total)) }

    /// Tells a value that a better one will follow. One that comes while the one before is still being told may take
    /// the place of another one that waits.
    func send(partial value: Value) { node.send(.value(value, isCompleted: false)) }

    /// Ends the work. The first end counts. What was subscribed to is left; operations in queues are not cancelled, as
    /// it may be one of them that calls this.
    func finish(_ result: Result<Value, ImagePipeline.Error>) { node.finish(result) }

    func finish(_ value: Value) { node.finish(.success(value)) }

    func fail(_ error: ImagePipeline.Error) { node.finish(.failure(error)) }

    // MARK: - Working

    /// Does the work in a Swift task, and ends with its result. To be called once. Where it fails, what it has left in
    /// queues is cancelled: nobody will ask for that.
    func run(_ body: @escaping @Sendable (WorkContext) async throws(ImagePipeline.Error) -> Value) {
        guard isOpen else { return }
        // Unstructured, as the work belongs to all subscribers and outlives the first of them: the node owns it and
        // cancels it when the last one leaves. Detached, as the first one's priority and task-local values are not
        // everybody's. It ends with its result or, cancelled, as soon as the body notices.
        let task = Task.detached {
            guard isOpen else { return }
            do throws(ImagePipeline.Error) {
                node.finish(.success(try await body(self)))
            } catch {
                node.finish(.failure(error), cancelsOperations: true)
            }
        }
        node.own(task)
    }

    /// What to do if the last subscriber leaves, after everything under way has been cancelled; at once if he has left
    /// already. Takes the place of the handler before.
    func onCancel(_ handler: (@Sendable () -> Void)?) { node.setCancelHandler(handler) }

    /// Runs work in a queue, in its turn by this node's priority, and waits for it.
    ///
    /// - Throws: what the work throws; `.cancelled` if nobody waits for the node any more before it is its turn.
    func perform<Result: Sendable>(
        on queue: TaskQueue,
        _ work: @escaping @Sendable () async throws(ImagePipeline.Error) -> Result
    ) async throws(ImagePipeline.Error) -> Result {
        guard let link = node.reserveLink() else { throw ended }
        defer { node.removeLink(link) }
        let attach = { (operation: TaskQueue.Operation) in node.attach(WorkLink(operation), to: link) }
        return try await queue.perform(priority: priority, onEnqueue: attach, work)
    }

    /// The same without waiting. The work tells its end itself, by this context.
    func enqueue(on queue: TaskQueue, _ work: @escaping @Sendable () async -> Void) {
        guard let link = node.reserveLink() else { return }
        let operation = queue.enqueue(priority: priority) {
            node.removeLink(link)
        } _: {
            await work()
            node.removeLink(link)
        }
        node.attach(WorkLink(operation), to: link)
    }

    var ended: ImagePipeline.Error {
        ImagePipeline.Error(.cancelled, "Nobody waits for this work any more.")
    }
}
