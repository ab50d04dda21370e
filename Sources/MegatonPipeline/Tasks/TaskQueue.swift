import Synchronization

/// Runs a limited number of operations at a time, pending ones by priority.
///
/// The number of pending operations is bounded by the callers: each waits for its own operation, which leaves the queue
/// with it. The width can be changed at any time; one queue may serve several pipelines.
final class TaskQueue: Sendable {
    private let state: Mutex<State>

    init(maxConcurrentOperationCount: Int) {
        precondition(maxConcurrentOperationCount > 0, "a queue needs at least one slot")
        state = Mutex(State(width: maxConcurrentOperationCount))
    }

    /// Raising it starts pending operations; after lowering it, running operations finish.
    var maxConcurrentOperationCount: Int {
        get { state.withLock { $0.width } }
        set {
            precondition(newValue > 0, "a queue needs at least one slot")
            start { $0.width = newValue }
        }
    }

    /// While true, no operation starts; running ones continue.
    var isSuspended: Bool {
        get { state.withLock { $0.isSuspended } }
        set { start { $0.isSuspended = newValue } }
    }

    var pendingCount: Int { state.withLock { $0.pending.count } }
    /// Operations that occupy a slot, including cancelled ones that have not ended yet.
    var runningCount: Int { state.withLock { $0.runningCount } }

    /// Adds an operation.
    ///
    /// - Parameters:
    ///   - dropped: called instead of `work` if the operation is cancelled before it starts, on the thread that cancels
    ///     it.
    ///   - work: runs in its own Swift task, which is cancelled with the operation.
    @discardableResult
    func enqueue(
        priority: WorkPriority = .normal,
        dropped: @escaping @Sendable () -> Void = {},
        _ work: @escaping @Sendable () async -> Void
    ) -> Operation {
        let id = start { $0.add(priority, State.Body(work: work, dropped: dropped)) }
        return Operation(queue: self, id: id)
    }

    /// Runs work as an operation and waits for it. Cancelling the calling task cancels the operation.
    ///
    /// - Parameter onEnqueue: called with the operation, whose priority can be changed.
    /// - Throws: the error of the work; `.cancelled` if the operation is cancelled before it starts.
    func perform<Value: Sendable>(
        priority: WorkPriority = .normal,
        onEnqueue: (Operation) -> Void = { _ in },
        _ work: @escaping @Sendable () async throws(ImageError) -> Value
    ) async throws(ImageError) -> Value {
        let end = Promise<Result<Value, ImageError>>()
        let (recorder, start) = (QueueWaitRecorder.current, ContinuousClock.now)
        let operation = enqueue(priority: priority) {
            recorder?.waited(since: start)
            end.resolve(.failure(ImageError(.cancelled, "The operation was cancelled while it waited for a slot.")))
        } _: {
            recorder?.waited(since: start)
            // The operation has its own task: waits within the work are recorded for the same request.
            await QueueWaitRecorder.$current.withValue(recorder) {
                do throws(ImageError) {
                    end.resolve(.success(try await work()))
                } catch {
                    end.resolve(.failure(error))
                }
            }
        }
        onEnqueue(operation)
        return try await withTaskCancellationHandler {
            await end.value
        } onCancel: {
            operation.cancel()
        }.get()
    }

    // MARK: - Running

    /// Changes the state, then starts the operations that are ready.
    @discardableResult
    private func start<Result: Sendable>(after change: (inout State) -> Result) -> Result {
        let (result, ready) = state.withLock { state in
            let result = change(&state)
            return (result, state.takeReady())
        }
        for id in ready {
            // Unstructured, as the caller of `enqueue` does not wait here. The operation owns the task, which is
            // cancelled with it, occupies one of the queue's slots, and releases that as its last act. Detached, as the
            // priority and the task-local values of the task that happens to free a slot are not this operation's.
            let task = Task.detached { await self.run(id) }
            if state.withLock({ $0.attach(task, to: id) }) { task.cancel() }
        }
        return result
    }

    private func run(_ id: Int) async {
        // Read here and not captured: an operation that was cancelled meanwhile has already released its work.
        if let body = state.withLock({ $0.begin(id) }) { await body.work() }
        start { $0.end(id) }
    }

    // MARK: - Operations

    func cancel(_ id: Int) {
        switch state.withLock({ $0.cancel(id) }) {
        case .drop(let body): body.dropped()
        case .cancel(let task): task.cancel()
        case .nothing: break
        }
    }

    func setPriority(_ priority: WorkPriority, revision: UInt64?, of id: Int) {
        state.withLock { $0.setPriority(priority, revision: revision, of: id) }
    }
}

extension TaskQueue {
    /// Handle of an enqueued operation. Its methods can be called at any time; after the end they do nothing.
    struct Operation: Sendable {
        let queue: TaskQueue
        let id: Int

        /// Moves the operation within the queue. No effect once it has started.
        func setPriority(_ priority: WorkPriority) { queue.setPriority(priority, revision: nil, of: id) }

        /// Changes the priority, unless a change with a higher revision was made before.
        func setPriority(_ priority: WorkPriority, revision: UInt64) {
            queue.setPriority(priority, revision: revision, of: id)
        }

        /// Removes the operation from the queue if it has not started, else cancels its Swift task.
        func cancel() { queue.cancel(id) }
    }
}
