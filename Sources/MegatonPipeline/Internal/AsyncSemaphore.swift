import Synchronization

/// So many at a time, first come first served.
final class AsyncSemaphore: Sendable {
    private struct State {
        var free: Int
        var waiting: [(id: Int, continuation: CheckedContinuation<Bool, Never>)] = []
        var nextID = 0
    }

    private let state: Mutex<State>

    init(_ count: Int) { state = Mutex(State(free: count)) }

    /// Runs the body with one of the places.
    ///
    /// - Throws: `.cancelled` if the task was cancelled while it waited; else what the body throws.
    func withPlace<Value: Sendable>(
        _ body: () async throws(ImagePipeline.Error) -> Value
    ) async throws(ImagePipeline.Error) -> Value {
        guard await take() else {
            throw ImagePipeline.Error(.cancelled, "Cancelled while waiting for a place to fetch.")
        }
        defer { give() }
        return try await body()
    }

    private func take() async -> Bool {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let answer = state.withLock { state -> Bool? in
                    if Task.isCancelled { return false }
                    if state.free > 0 {
                        state.free -= 1
                        return true
                    }
                    state.waiting.append((id, continuation))
                    return nil
                }
                if let answer { continuation.resume(returning: answer) }
            }
        } onCancel: {
            let waiting = state.withLock { state -> CheckedContinuation<Bool, Never>? in
                guard let index = state.waiting.firstIndex(where: { $0.id == id }) else { return nil }
                return state.waiting.remove(at: index).continuation
            }
            waiting?.resume(returning: false)
        }
    }

    private func give() {
        let next = state.withLock { state -> CheckedContinuation<Bool, Never>? in
            if state.waiting.isEmpty {
                state.free += 1
                return nil
            }
            return state.waiting.removeFirst().continuation
        }
        next?.resume(returning: true)
    }
}
