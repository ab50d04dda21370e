import Synchronization

/// What is refreshed behind the answers: each key once at a time, a bounded number of tasks, all ended with their owner.
final class Refreshes: Sendable {
    private struct State {
        var keys: Set<CacheKey> = []
        var tasks: [Int: Task<Void, Never>] = [:]
        var nextID = 0
        var isStopped = false
    }

    private let limit: Int
    private let state = Mutex(State())

    /// - Parameter limit: tasks at a time.
    init(limit: Int) { self.limit = limit }

    /// Keys that are being worked on.
    var count: Int { state.withLock { $0.keys.count } }

    /// Starts work on those of the keys that nobody works on yet.
    ///
    /// - Returns: these keys; none where too much is under way already.
    func start(_ keys: [CacheKey], _ work: @escaping @Sendable (Set<CacheKey>) async -> Void) -> Set<CacheKey> {
        state.withLock { state in
            let new = Set(keys).subtracting(state.keys)
            guard !new.isEmpty, !state.isStopped, state.tasks.count < limit else { return [] }
            state.nextID += 1
            let id = state.nextID
            state.keys.formUnion(new)
            // Unstructured, as the answer does not wait for it: counted against the limit, cancelled by `stop`, and as
            // short as a fetch and a render are. It cannot end before it is noted: its end takes the same lock.
            state.tasks[id] = Task {
                await work(new)
                self.ended(id, new)
            }
            return new
        }
    }

    private func ended(_ id: Int, _ keys: Set<CacheKey>) {
        state.withLock { state in
            state.tasks[id] = nil
            state.keys.subtract(keys)
        }
    }

    /// Cancels what is under way; nothing is started any more.
    func stop() {
        let tasks = state.withLock { state in
            state.isStopped = true
            return Array(state.tasks.values)
        }
        for task in tasks { task.cancel() }
    }
}
