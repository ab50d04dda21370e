import Synchronization

/// Asks long-running components to shut down: first gracefully, then at once.
package final class ShutdownSignal: Sendable {
    /// The urgency of the shutdown.
    package enum Level: Int, Sendable, Comparable {
        case none
        /// Start nothing new, finish running jobs.
        case drain
        /// Release running jobs.
        case abort

        package static func < (left: Level, right: Level) -> Bool { left.rawValue < right.rawValue }
    }

    private struct State {
        var level = Level.none
        var waiting: [(level: Level, id: Int, continuation: CheckedContinuation<Void, Never>)] = []
        var nextID = 0
    }

    private let state = Mutex(State())

    package init() {}

    package var level: Level { state.withLock { $0.level } }

    /// Raises the level; it cannot be lowered.
    package func raise(to level: Level) {
        let woken = state.withLock { state in
            state.level = max(state.level, level)
            let woken = state.waiting.filter { $0.level <= state.level }
            state.waiting.removeAll { $0.level <= state.level }
            return woken
        }
        for waiter in woken { waiter.continuation.resume() }
    }

    /// Returns when the level is reached, or the task is cancelled.
    package func wait(for level: Level) async {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReached = state.withLock { state in
                    if state.level >= level || Task.isCancelled { return true }
                    state.waiting.append((level, id, continuation))
                    return false
                }
                if isReached { continuation.resume() }
            }
        } onCancel: {
            let continuation = state.withLock { state -> CheckedContinuation<Void, Never>? in
                guard let index = state.waiting.firstIndex(where: { $0.id == id }) else { return nil }
                return state.waiting.remove(at: index).continuation
            }
            continuation?.resume()
        }
    }
}
