import Synchronization

/// What a pipeline has been asked for and has not finished: image tasks, and calls for bytes and renditions.
final class ImageTasks: Sendable {
    private struct State {
        var tasks: [Int: ImageTask] = [:]
        /// How to cancel them.
        var calls: [Int: @Sendable () -> Void] = [:]
        var lastID = 0
        var lastCall = 0
        var isOpen = true
    }

    private let state = Mutex(State())

    /// Whether new ones are taken.
    var isOpen: Bool { state.withLock { $0.isOpen } }

    var count: Int { state.withLock { $0.tasks.count } }
    var callCount: Int { state.withLock { $0.calls.count } }

    /// A new one, which is in here until it is removed.
    func make(
        _ request: ImageRequest,
        observer: @escaping @Sendable (ImageTask, ImageTask.Event) -> Void
    ) -> ImageTask {
        state.withLock { state in
            state.lastID += 1
            let task = ImageTask(id: state.lastID, request: request, observer: observer)
            if state.isOpen { state.tasks[task.id] = task }
            return task
        }
    }

    func remove(_ task: ImageTask) { state.withLock { $0.tasks[task.id] = nil } }

    /// A call is in here until it is removed.
    ///
    /// - Parameter cancel: called on `close`, from any thread.
    /// - Returns: its number; nil where no more are taken.
    func addCall(cancel: @escaping @Sendable () -> Void) -> Int? {
        state.withLock { state in
            guard state.isOpen else { return nil }
            state.lastCall += 1
            state.calls[state.lastCall] = cancel
            return state.lastCall
        }
    }

    func removeCall(_ number: Int) { state.withLock { $0.calls[number] = nil } }

    /// Takes no more.
    ///
    /// - Returns: what cancels those there are.
    func close() -> [@Sendable () -> Void] {
        state.withLock { state in
            state.isOpen = false
            let tasks: [@Sendable () -> Void] = state.tasks.values.map { task in { @Sendable in task.cancel() } }
            return tasks + state.calls.values
        }
    }
}
