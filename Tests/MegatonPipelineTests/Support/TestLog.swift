import Synchronization

/// A log of events in order; a test can wait for a number of them.
final class TestLog<Value: Sendable>: Sendable {
    private struct State {
        var values: [Value] = []
        var waiting: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
    }

    private let state = Mutex(State())

    var values: [Value] { state.withLock { $0.values } }
    var count: Int { state.withLock { $0.values.count } }

    func append(_ value: Value) {
        let woken = state.withLock { state in
            state.values.append(value)
            let count = state.values.count
            defer { state.waiting.removeAll { $0.count <= count } }
            return state.waiting.filter { $0.count <= count }
        }
        for (_, continuation) in woken { continuation.resume() }
    }

    /// Returns once there are `count` values.
    func wait(for count: Int) async {
        await withCheckedContinuation { continuation in
            let isReached = state.withLock { state in
                if state.values.count >= count { return true }
                state.waiting.append((count, continuation))
                return false
            }
            if isReached { continuation.resume() }
        }
    }
}

#if MEGATON_SANITIZE
    @_exported public import MegatonCore

    // As `Synchronization.Mutex`, for sanitizers; exported so that all files of this module see its members.
    typealias Mutex = MegatonCore.Mutex
#endif
