/// A node as its job sees it. May be stored, and used from any thread; after the node's end it does nothing.
struct WorkContext<Value: Sendable>: Sendable {
    let node: WorkNode<Value>

    /// Whether a subscriber still waits for the result.
    var isOpen: Bool { node.isOpen }
    /// Highest priority of the subscribers.
    var priority: WorkPriority { node.priority }

    // MARK: - Reporting

    /// - Parameter total: 0 while it is not known.
    func send(completed: Int64, total: Int64) { node.send(.progress(completed: completed, total: total)) }

    /// Sends a preliminary value, which a better one will follow. While an earlier one is being delivered, a new one
    /// replaces another that waits for delivery.
    func send(partial value: Value) { node.send(.value(value, isCompleted: false)) }

    /// Ends the work. The first call counts. Subscriptions to other nodes end; operations in queues are not cancelled,
    /// as the caller may be one of them.
    func finish(_ result: Result<Value, ImageError>) { node.finish(result) }

    func finish(_ value: Value) { node.finish(.success(value)) }

    func fail(_ error: ImageError) { node.finish(.failure(error)) }

    // MARK: - Working

    /// Runs the work in a Swift task, and ends the node with its result. Must be called once. If the body throws,
    /// operations that it has left in queues are cancelled, as their results are not needed any more.
    func run(_ body: @escaping @Sendable (WorkContext) async throws(ImageError) -> Value) {
        guard isOpen else { return }
        // Unstructured, as the work belongs to all subscribers and outlives the first of them: the node owns the task
        // and cancels it when the last subscriber leaves. Detached, as the first subscriber's priority and task-local
        // values are not those of the others. Ends with its result or, when cancelled, as soon as the body notices.
        let task = Task.detached {
            guard isOpen else { return }
            do throws(ImageError) {
                node.finish(.success(try await body(self)))
            } catch {
                node.finish(.failure(error), cancelsOperations: true)
            }
        }
        node.own(task)
    }

    /// Sets a handler that is called when the last subscriber leaves, after everything under way was cancelled;
    /// immediately if that has happened already. Replaces the previous handler.
    func onCancel(_ handler: (@Sendable () -> Void)?) { node.setCancelHandler(handler) }

    /// Runs work in a queue with this node's priority, and waits for it.
    ///
    /// - Throws: the error of the work; `.cancelled` if the last subscriber leaves before the work starts.
    func perform<Result: Sendable>(
        on queue: TaskQueue,
        _ work: @escaping @Sendable () async throws(ImageError) -> Result
    ) async throws(ImageError) -> Result {
        guard let link = node.reserveLink() else { throw ended }
        defer { node.removeLink(link) }
        let attach = { (operation: TaskQueue.Operation) in node.attach(WorkLink(operation), to: link) }
        return try await queue.perform(priority: priority, onEnqueue: attach, work)
    }

    /// Runs work in a queue without waiting for it. The work reports its result itself, through this context.
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

    var ended: ImageError {
        ImageError(.cancelled, "No request waits for this work any more.")
    }
}

/// Work of a node, in one of two forms.
struct WorkJob<Value: Sendable>: Sendable {
    let start: @Sendable (WorkContext<Value>) -> Void

    /// Work that is started by a synchronous call on the first subscriber's thread, which must not block.
    ///
    /// It may finish immediately (a hit in memory), or keep the context and finish later.
    static func starting(_ start: @escaping @Sendable (WorkContext<Value>) -> Void) -> WorkJob { WorkJob(start: start) }

    /// Work in a Swift task of its own, which is cancelled when the last subscriber leaves.
    static func running(
        _ body: @escaping @Sendable (WorkContext<Value>) async throws(ImageError) -> Value
    ) -> WorkJob {
        WorkJob { context in context.run(body) }
    }
}

/// Work that waits for other work: it receives the progress, and determines the priority. Erases the type of
/// `WorkContext`, as loads and renders serve several kinds of work.
protocol WorkParent: Sendable {
    /// See `WorkContext`.
    var isOpen: Bool { get }
    /// See `WorkContext`.
    var priority: WorkPriority { get }
    /// The error for work that begins after the end.
    var ended: ImageError { get }

    /// Reserves an id for a link that is about to be created; nil if the work has ended.
    func reserveLink() -> Int?
    /// Attaches a dependency or operation, which inherits the priority, and ends with the work.
    func attach(_ link: WorkLink, to id: Int)
    func removeLink(_ id: Int)

    /// See `WorkContext`.
    func outcome<Key: Hashable & Sendable, Other: Sendable>(
        of pool: WorkPool<Key, Other>,
        key: Key,
        job: WorkJob<Other>,
        onPartial: @escaping @Sendable (Other) -> Void
    ) async -> WorkOutcome<Other>

    /// See `WorkContext`.
    func perform<Result: Sendable>(
        on queue: TaskQueue,
        _ work: @escaping @Sendable () async throws(ImageError) -> Result
    ) async throws(ImageError) -> Result
}

extension WorkContext: WorkParent {
    func reserveLink() -> Int? { node.reserveLink() }
    func attach(_ link: WorkLink, to id: Int) { node.attach(link, to: id) }
    func removeLink(_ id: Int) { node.removeLink(id) }
}
