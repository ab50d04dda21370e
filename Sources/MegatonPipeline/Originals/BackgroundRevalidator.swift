internal import Logging
import Synchronization

/// Background work after the response was returned: revalidation of stale originals and renditions, and writes of
/// encoded images to the cache. A bounded number of tasks runs, one at a time for each key. All are cancelled with
/// their owner.
final class BackgroundRevalidator: Sendable {
    private struct State {
        var keys: Set<CacheKey> = []
        var tasks: [Int: Task<Void, Never>] = [:]
        var nextID = 0
        var isStopped = false
        /// Whether work was dropped since there last was room.
        var isOverfull = false
        /// Whether `finish(within:)` waits for the last task.
        var isEnding = false
    }

    /// Result of an attempt to start work.
    struct Start {
        /// Keys whose work has started.
        var started: Set<CacheKey> = []
        /// Keys whose work was dropped, as too many tasks are under way.
        var rejected: Set<CacheKey> = []
    }

    private let limit: Int
    private let logger: Logger
    private let state = Mutex(State())
    private let isIdle = AsyncSignal()

    /// - Parameters:
    ///   - limit: maximum number of tasks at a time.
    ///   - logger: logs when work begins to be dropped, not each key.
    init(limit: Int, logger: Logger) {
        self.limit = limit
        self.logger = logger
    }

    /// Number of keys under way.
    var count: Int { state.withLock { $0.keys.count } }

    /// Starts work on the keys that are not under way yet, unless the limit is reached.
    func start(_ keys: [CacheKey], _ work: @escaping @Sendable (Set<CacheKey>) async -> Void) -> Start {
        let (start, isFirstDrop) = state.withLock { state -> (Start, Bool) in
            let new = Set(keys).subtracting(state.keys)
            if new.isEmpty || state.isStopped || state.isEnding { return (Start(), false) }
            guard state.tasks.count < limit else {
                defer { state.isOverfull = true }
                return (Start(rejected: new), !state.isOverfull)
            }
            state.nextID += 1
            let id = state.nextID
            state.keys.formUnion(new)
            // Unstructured, as the response does not wait for it. Counted against the limit, cancelled by `stop`, and
            // as short as a fetch and a render. It cannot end before it is recorded: its end needs the same lock.
            state.tasks[id] = Task {
                await work(new)
                self.ended(id, new)
            }
            return (Start(started: new), false)
        }
        if isFirstDrop {
            logger.warning(
                "too many background tasks; some entries are not stored or revalidated",
                metadata: ["limit": "\(limit)"]
            )
        }
        return start
    }

    private func ended(_ id: Int, _ keys: Set<CacheKey>) {
        let isLast = state.withLock { state in
            state.tasks[id] = nil
            state.keys.subtract(keys)
            // Not as soon as one slot is free: under lasting load, the warning would be logged again and again.
            if state.tasks.count <= limit / 2 { state.isOverfull = false }
            return state.isEnding && state.tasks.isEmpty
        }
        if isLast { isIdle.signal() }
    }

    /// Waits for the tasks under way, and starts no more: a program that ends would otherwise serve the same stale
    /// results in its next run.
    ///
    /// - Parameter limit: how long to wait; cancellation ends the wait too.
    /// - Returns: the number of tasks that are still under way.
    func finish(within limit: Duration) async -> Int {
        let count = state.withLock { state in
            state.isEnding = true
            return state.tasks.count
        }
        if count == 0 { return 0 }
        await TimeLimit.wait(atMost: limit) { [isIdle] in await isIdle.wait() }
        return state.withLock { $0.tasks.count }
    }

    /// Cancels the tasks under way and starts no more.
    func stop() {
        let tasks = state.withLock { state in
            state.isStopped = true
            return Array(state.tasks.values)
        }
        for task in tasks { task.cancel() }
    }
}
