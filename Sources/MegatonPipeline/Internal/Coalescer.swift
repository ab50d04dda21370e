import Synchronization

/// Lets the first who asks for a key do the work, and hands its result to all who ask while it lasts.
///
/// What has landed is forgotten at once: remembering is the caches' part.
final class Coalescer<Value: Sendable>: Sendable {
    typealias Outcome = Result<Value, ImagePipeline.Error>

    private let flights = Mutex<[CacheKey: Flight]>([:])

    /// Splits keys into those that the caller leads from now on, each to be ended by `land`, and those under way.
    func enter(_ keys: [CacheKey]) -> (led: [CacheKey], joined: [(CacheKey, Flight)]) {
        flights.withLock { flights in
            var led: [CacheKey] = []
            var joined: [(CacheKey, Flight)] = []
            for key in keys {
                if let flight = flights[key] {
                    joined.append((key, flight))
                } else {
                    flights[key] = Flight()
                    led.append(key)
                }
            }
            return (led, joined)
        }
    }

    /// Ends a flight: those who joined it go on.
    func land(_ key: CacheKey, _ outcome: Outcome) {
        flights.withLock { $0.removeValue(forKey: key) }?.land(outcome)
    }

    /// Work of somebody else in this process.
    final class Flight: Sendable {
        private struct State {
            var outcome: Outcome?
            var waiting: [Int: CheckedContinuation<Outcome, Never>] = [:]
            var nextID = 0
        }

        private let state = Mutex(State())

        /// The result, or `.cancelled` if the caller's task is cancelled first. The work itself goes on.
        func outcome() async -> Outcome {
            let id = state.withLock { state in
                state.nextID += 1
                return state.nextID
            }
            return await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let outcome = state.withLock { state -> Outcome? in
                        if let outcome = state.outcome { return outcome }
                        if Task.isCancelled { return Self.cancelled }
                        state.waiting[id] = continuation
                        return nil
                    }
                    if let outcome { continuation.resume(returning: outcome) }
                }
            } onCancel: {
                state.withLock { $0.waiting.removeValue(forKey: id) }?.resume(returning: Self.cancelled)
            }
        }

        fileprivate func land(_ outcome: Outcome) {
            let waiting = state.withLock { state in
                state.outcome = outcome
                defer { state.waiting = [:] }
                return state.waiting
            }
            for continuation in waiting.values { continuation.resume(returning: outcome) }
        }

        private static var cancelled: Outcome {
            .failure(ImagePipeline.Error(.cancelled, "The wait for another request's result was cancelled."))
        }
    }
}
