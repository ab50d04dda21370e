import Synchronization

/// The image tasks of a pipeline that have not finished.
final class ImageTasks: Sendable {
    private struct State {
        var tasks: [Int: ImageTask] = [:]
        var lastID = 0
        var isOpen = true
    }

    private let state = Mutex(State())

    /// Whether new ones are taken.
    var isOpen: Bool { state.withLock { $0.isOpen } }

    var count: Int { state.withLock { $0.tasks.count } }

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

    /// Takes no more, and hands over those there are.
    func close() -> [ImageTask] {
        state.withLock { state in
            state.isOpen = false
            return Array(state.tasks.values)
        }
    }
}
