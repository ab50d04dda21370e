import Synchronization

/// A clock that stands still until a test advances it.
final class ManualClock: Clock {
    struct Instant: InstantProtocol {
        var offset: Duration = .zero

        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (one: Instant, other: Instant) -> Bool { one.offset < other.offset }
    }

    private struct State {
        var now = Instant()
        var sleepers: [Int: (end: Instant, continuation: CheckedContinuation<Void, any Error>)] = [:]
        var watchers: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
        var nextID = 0

        mutating func satisfiedWatchers() -> [CheckedContinuation<Void, Never>] {
            let satisfied = watchers.filter { $0.count <= sleepers.count }.map(\.continuation)
            watchers.removeAll { $0.count <= sleepers.count }
            return satisfied
        }
    }

    private let state = Mutex(State())

    var now: Instant { state.withLock { $0.now } }
    var minimumResolution: Duration { .nanoseconds(1) }

    /// Nanoseconds since 1970; the clock starts in 2020.
    @Sendable func date() -> Int64 {
        let (seconds, attoseconds) = now.offset.components
        return (1_577_836_800 + seconds) * 1_000_000_000 + attoseconds / 1_000_000_000
    }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { self.sleep(id, until: deadline, $0) }
        } onCancel: {
            let sleeper = state.withLock { $0.sleepers.removeValue(forKey: id) }
            sleeper?.continuation.resume(throwing: CancellationError())
        }
    }

    private func sleep(_ id: Int, until deadline: Instant, _ continuation: CheckedContinuation<Void, any Error>) {
        let (isOver, watchers) = state.withLock { state -> (Bool, [CheckedContinuation<Void, Never>]) in
            if Task.isCancelled || deadline <= state.now { return (true, []) }
            state.sleepers[id] = (deadline, continuation)
            return (false, state.satisfiedWatchers())
        }
        if isOver { continuation.resume(with: Task.isCancelled ? .failure(CancellationError()) : .success(())) }
        for watcher in watchers { watcher.resume() }
    }

    /// Advances the clock, and resumes the sleepers that are due.
    func advance(by duration: Duration) {
        let woken = state.withLock { state in
            state.now = state.now.advanced(by: duration)
            let due = state.sleepers.filter { $0.value.end <= state.now }
            for id in due.keys { state.sleepers[id] = nil }
            return due.values.sorted { $0.end < $1.end }.map(\.continuation)
        }
        for continuation in woken { continuation.resume() }
    }

    /// Returns once `count` tasks sleep at the same time.
    func waitForSleepers(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isDone = state.withLock { state in
                if state.sleepers.count >= count { return true }
                state.watchers.append((count, continuation))
                return false
            }
            if isDone { continuation.resume() }
        }
    }

    /// Returns once a task sleeps, with the shortest time that any has left.
    func sleeper() async -> Duration {
        await waitForSleepers(1)
        return state.withLock { state in
            state.sleepers.values.map { state.now.duration(to: $0.end) }.min() ?? .zero
        }
    }

    var sleepers: Int { state.withLock { $0.sleepers.count } }
}
