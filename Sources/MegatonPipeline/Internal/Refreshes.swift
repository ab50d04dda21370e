internal import Logging
import Synchronization

/// What is refreshed behind the answers: each key once at a time, a bounded number of tasks, all ended with their owner.
final class Refreshes: Sendable {
    private struct State {
        var keys: Set<CacheKey> = []
        var tasks: [Int: Task<Void, Never>] = [:]
        var nextID = 0
        var isStopped = false
        /// Whether work was left out since there was room.
        var isOverfull = false
    }

    /// What has become of a wish to start.
    struct Start {
        /// What is being worked on from now on.
        var begun: Set<CacheKey> = []
        /// What nobody works on, as too much is under way.
        var dropped: Set<CacheKey> = []
    }

    private let limit: Int
    private let logger: Logger
    private let state = Mutex(State())

    /// - Parameters:
    ///   - limit: tasks at a time.
    ///   - logger: told when work begins to be left out, and not of each piece.
    init(limit: Int, logger: Logger) {
        self.limit = limit
        self.logger = logger
    }

    /// Keys that are being worked on.
    var count: Int { state.withLock { $0.keys.count } }

    /// Starts work on those of the keys that nobody works on yet, unless too much is under way already.
    func start(_ keys: [CacheKey], _ work: @escaping @Sendable (Set<CacheKey>) async -> Void) -> Start {
        let (start, isFirstDrop) = state.withLock { state -> (Start, Bool) in
            let new = Set(keys).subtracting(state.keys)
            if new.isEmpty || state.isStopped { return (Start(), false) }
            guard state.tasks.count < limit else {
                defer { state.isOverfull = true }
                return (Start(dropped: new), !state.isOverfull)
            }
            state.nextID += 1
            let id = state.nextID
            state.keys.formUnion(new)
            // Unstructured, as the answer does not wait for it: counted against the limit, cancelled by `stop`, and as
            // short as a fetch and a render are. It cannot end before it is noted: its end takes the same lock.
            state.tasks[id] = Task {
                await work(new)
                self.ended(id, new)
            }
            return (Start(begun: new), false)
        }
        if isFirstDrop {
            logger.warning(
                "too much is kept and refreshed behind the answers: some is left out",
                metadata: ["limit": "\(limit)"]
            )
        }
        return start
    }

    private func ended(_ id: Int, _ keys: Set<CacheKey>) {
        state.withLock { state in
            state.tasks[id] = nil
            state.keys.subtract(keys)
            // Not at the first place that gets free: a lasting load would be told of again and again.
            if state.tasks.count <= limit / 2 { state.isOverfull = false }
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
