import Synchronization

/// A clock that moves when a test says so.
final class ManualClock: Clock, Sendable {
    struct Instant: InstantProtocol {
        var offset: Duration = .zero

        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private struct State {
        var now = Instant()
        var nextID = 0
        var sleepers: [(id: Int, deadline: Instant, continuation: CheckedContinuation<Void, any Error>)] = []
        var waiting: [CheckedContinuation<Duration, Never>] = []
    }

    private let state = Mutex(State())

    var now: Instant { state.withLock { $0.now } }
    let minimumResolution: Duration = .zero

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let (isCancelled, waiting, rest) = state.withLock { state in
                    if Task.isCancelled { return (true, [CheckedContinuation<Duration, Never>](), Duration.zero) }
                    state.sleepers.append((id, deadline, continuation))
                    defer { state.waiting = [] }
                    return (false, state.waiting, state.now.duration(to: deadline))
                }
                if isCancelled { continuation.resume(throwing: CancellationError()) }
                for waiter in waiting { waiter.resume(returning: rest) }
            }
        } onCancel: {
            let continuation = state.withLock { state in
                let index = state.sleepers.firstIndex { $0.id == id }
                return index.map { state.sleepers.remove(at: $0).continuation }
            }
            continuation?.resume(throwing: CancellationError())
        }
    }

    /// Returns when somebody sleeps, and says for how long.
    func sleeper() async -> Duration {
        await withCheckedContinuation { continuation in
            let rest = state.withLock { state -> Duration? in
                if let sleeper = state.sleepers.last { return state.now.duration(to: sleeper.deadline) }
                state.waiting.append(continuation)
                return nil
            }
            if let rest { continuation.resume(returning: rest) }
        }
    }

    var sleepers: Int { state.withLock { $0.sleepers.count } }

    func advance(by duration: Duration) {
        let woken = state.withLock { state in
            state.now = state.now.advanced(by: duration)
            let woken = state.sleepers.filter { $0.deadline <= state.now }
            state.sleepers.removeAll { $0.deadline <= state.now }
            return woken
        }
        for sleeper in woken { sleeper.continuation.resume() }
    }
}
