import MegatonPipeline
import Synchronization

/// Who is told of entries that were deleted: the pipelines with caches of their own before this one, as long as they live.
final class DeletionObservers: Sendable {
    private struct State {
        var handlers: [Int: @Sendable (String?) -> Void] = [:]
        var lastID = 0
    }

    private struct Observation: Cancellable {
        // Weak, as it may outlive the lock that it is about.
        weak let observers: DeletionObservers?
        let id: Int

        func cancel() { observers?.remove(id) }
    }

    private let state = Mutex(State())

    /// - Returns: what ends it.
    func add(_ handler: @escaping @Sendable (String?) -> Void) -> any Cancellable {
        let id = state.withLock { state in
            state.lastID += 1
            state.handlers[state.lastID] = handler
            return state.lastID
        }
        return Observation(observers: self, id: id)
    }

    /// In the order in which they came: who observes behind a cache finds that it knows already.
    ///
    /// - Parameter key: nil where any may have been deleted.
    func tell(_ key: String?) {
        let handlers = state.withLock { $0.handlers.sorted { $0.key < $1.key }.map(\.value) }
        for handler in handlers { handler(key) }
    }

    // What is removed is let go of outside of the lock: the end of a handler may end others.
    private func remove(_ id: Int) { _ = state.withLock { $0.handlers.removeValue(forKey: id) } }
}
