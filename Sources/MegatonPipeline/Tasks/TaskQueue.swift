import Synchronization

/// Runs so many operations at a time, the most urgent of those that wait first.
///
/// How many may wait is bounded by its callers: each operation belongs to somebody who waits for it, and leaves the
/// queue when he does. Widths can be changed while it works; one queue may serve several pipelines.
final class TaskQueue: Sendable {
    private let state: Mutex<State>

    init(maxConcurrentOperationCount: Int) {
        precondition(maxConcurrentOperationCount > 0, "a queue needs a place to run something")
        state = Mutex(State(width: maxConcurrentOperationCount))
    }

    /// Raising it starts what waits; lowering it lets finish what runs.
    var maxConcurrentOperationCount: Int {
        get { state.withLock { $0.width } }
        set {
            precondition(newValue > 0, "a queue needs a place to run something")
            start { $0.width = newValue }
        }
    }

    /// While it is set nothing begins; what runs goes on.
    var isSuspended: Bool {
        get { state.withLock { $0.isSuspended } }
        set { start { $0.isSuspended = newValue } }
    }

    var pendingCount: Int { state.withLock { $0.pending.count } }
    /// Those that hold a place, also where they have been cancelled and have not ended yet.
    var runningCount: Int { state.withLock { $0.runningCount } }

    /// Adds an operation.
    ///
    /// - Parameters:
    ///   - dropped: called in place of `work` if the operation is cancelled before it has begun, by who cancels it.
    ///   - work: runs in a Swift task of its own, which is cancelled with the operation.
    @discardableResult
    func enqueue(
        priority: WorkPriority = .normal,
        dropped: @escaping @Sendable () -> Void = {},
        _ work: @escaping @Sendable () async -> Void
    ) -> Operation {
        let id = start { $0.add(priority, State.Body(work: work, dropped: dropped)) }
        return Operation(queue: self, id: id)
    }

    /// Runs work in its turn and waits for it. If the calling task is cancelled, so is the operation.
    ///
    /// - Parameter onEnqueue: is given the operation, whose priority can be changed.
    /// - Throws: what the work throws; `.cancelled` if the operation is cancelled before it has begun.
    func perform<Value: Sendable>(
        priority: WorkPriority = .normal,
        onEnqueue: (Operation) -> Void = { _ in },
        _ work: @escaping @Sendable () async throws(ImagePipeline.Error) -> Value
    ) async throws(ImagePipeline.Error) -> Value {
        let end = OneShot<Result<Value, ImagePipeline.Error>>()
        let (account, start) = (QueueAccount.current, ContinuousClock.now)
        let operation = enqueue(priority: priority) {
            account?.waited(since: start)
            end.resolve(.failure(ImagePipeline.Error(.cancelled, "Cancelled while waiting for its turn.")))
        } _: {
            account?.waited(since: start)
            // The operation has a task of its own: what the work waits for goes to the same account.
            await QueueAccount.$current.withValue(account) {
                do throws(ImagePipeline.Error) {
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

    /// Changes the state and starts what may begin after that.
    @discardableResult
    private func start<Result: Sendable>(after change: (inout State) -> Result) -> Result {
        let (result, ready) = state.withLock { state in
            let result = change(&state)
            return (result, state.takeReady())
        }
        for id in ready {
            // Unstructured, as who enqueued it does not wait here. The operation owns it: it is cancelled with the
            // operation, holds one of the queue's places, and gives that back as its last act. Detached, as the
            // priority and the values of the task that happens to free a place are not this operation's.
            let task = Task.detached { await self.run(id) }
            if state.withLock({ $0.attach(task, to: id) }) { task.cancel() }
        }
        return result
    }

    private func run(_ id: Int) async {
        // Read here and not captured: an operation that was cancelled in the meantime has let go of its work already.
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
