import Synchronization

/// Unfinished work of a pipeline: image tasks, and calls for bytes and renditions.
final class ImageTasks: Sendable {
    private struct State {
        var tasks: [Int: ImageTask] = [:]
        /// Functions that cancel the calls.
        var calls: [Int: @Sendable () -> Void] = [:]
        var lastID = 0
        var lastCall = 0
        var isOpen = true
    }

    private let state = Mutex(State())

    /// Whether new tasks and calls are accepted.
    var isOpen: Bool { state.withLock { $0.isOpen } }

    var count: Int { state.withLock { $0.tasks.count } }
    var callCount: Int { state.withLock { $0.calls.count } }

    /// Creates a task, which is registered here until it is removed.
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

    /// Registers a call until it is removed.
    ///
    /// - Parameter cancel: called on `close`, from any thread.
    /// - Returns: number of the call; nil after `close`.
    func addCall(cancel: @escaping @Sendable () -> Void) -> Int? {
        state.withLock { state in
            guard state.isOpen else { return nil }
            state.lastCall += 1
            state.calls[state.lastCall] = cancel
            return state.lastCall
        }
    }

    func removeCall(_ number: Int) { state.withLock { $0.calls[number] = nil } }

    /// Rejects new tasks and calls from now on.
    ///
    /// - Returns: functions that cancel those under way.
    func close() -> [@Sendable () -> Void] {
        state.withLock { state in
            state.isOpen = false
            let tasks: [@Sendable () -> Void] = state.tasks.values.map { task in { @Sendable in task.cancel() } }
            return tasks + state.calls.values
        }
    }
}
