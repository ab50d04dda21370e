internal import MegatonRedis
import Synchronization

/// Batches job completions into one `settle` call.
///
/// At most one call is in flight. Completions that arrive meanwhile, or within `batchingWindow` of the last call, go
/// with the next one: at a low rate each is sent at once, at a high rate one script and one round trip serve many. Each
/// caller suspends until Redis has acknowledged its own completion. The number of waiting callers is bounded by the
/// jobs that the worker holds.
///
/// A call may also claim jobs for the places that its jobs have left (`PiggybackClaiming`): a worker with short jobs
/// then has one round trip for each instead of two or three.
final class CompletionBatcher: Sendable {
    private let queue: JobQueue
    private let worker: String
    private let batchingWindow: Duration
    private let state = Mutex(State())

    private struct Waiting {
        let completion: JobCompletion
        let turn: CheckedContinuation<Turn, Never>
    }

    private struct State {
        var waiting: [Waiting] = []
        /// Whether a caller is sending completions, or batching them.
        var isSending = false
        /// Whether a call is in flight, which takes no more completions.
        var isCalling = false
        /// When the last call was made.
        var last: ContinuousClock.Instant?
        var claims: (any PiggybackClaiming)?
    }

    /// Resumes a waiting caller.
    private enum Turn: Sendable {
        /// The caller makes the next call, for other callers too.
        case send
        case reported(Result<SettleResult, RedisError>)
    }

    /// Bytes after which a call takes no more completions: the script holds all of them, and Redis serves no other
    /// client meanwhile.
    static let limit = 1024 * 1024

    /// Number of callers that wait for another caller's call.
    var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// Whether a completion that arrives now goes with the next call.
    var isCalling: Bool { state.withLock { $0.isCalling } }

    /// A worker with one place has no two completions at a time, but may claim its next job with each.
    convenience init(_ queue: JobQueue, worker: String, places: Int) {
        self.init(queue, worker: worker, batchingWindow: places > 1 ? .milliseconds(20) : .zero)
    }

    /// - Parameter batchingWindow: the shortest time between two calls.
    init(_ queue: JobQueue, worker: String, batchingWindow: Duration) {
        self.queue = queue
        self.worker = worker
        self.batchingWindow = batchingWindow
    }

    /// Sets the claims that go with settlements; nil for none.
    func use(_ claims: (any PiggybackClaiming)?) { state.withLock { $0.claims = claims } }

    /// Reports a completion and waits until Redis has acknowledged it.
    ///
    /// - Parameter free: called if the place of the job is free for another one, at once; not if this call claims one.
    /// - Returns: the reply of Redis to this completion.
    /// - Throws: if it is unknown whether Redis has applied the completion. It may be reported again.
    func report(
        _ completion: JobCompletion,
        free: () -> Void = {}
    ) async throws(RedisError) -> SettleResult {
        var isFirst = true
        let turn = await withCheckedContinuation { (continuation: CheckedContinuation<Turn, Never>) in
            isFirst = state.withLock { state in
                if state.isSending {
                    state.waiting.append(Waiting(completion: completion, turn: continuation))
                    return false
                }
                state.isSending = true
                return true
            }
            if isFirst { continuation.resume(returning: .send) } else { free() }
        }
        switch turn {
        case .send: return try await sendAll(with: completion, free: isFirst ? free : {}).get()
        case .reported(let result): return try result.get()
        }
    }

    private func sendAll(
        with completion: JobCompletion,
        free: () -> Void
    ) async -> Result<SettleResult, RedisError> {
        if let next = state.withLock({ $0.last })?.advanced(by: batchingWindow), next > .now {
            free()
            try? await Task.sleep(until: next, clock: .continuous)  // Cancelled: it is sent at once.
        }
        let others = takeWaiting(with: completion)
        let completions = [completion] + others.map(\.completion)
        let result: Result<[SettleResult], RedisError>
        if let claims = state.withLock({ $0.claims }), let request = claims.beginClaim() {
            let replies = await queue.settle(completions, worker: worker, claiming: request)
            claims.endClaim(replies.claim)
            result = replies.settled
        } else {
            free()
            result = await queue.settlement(of: completions, worker: worker)
        }
        promoteNext()
        // A failure goes to all of them: each caller knows for how long it may retry.
        for (index, other) in others.enumerated() {
            other.turn.resume(returning: .reported(result.map { $0[index + 1] }))
        }
        return result.map { $0[0] }
    }

    /// Removes the waiting completions that go in the same call.
    private func takeWaiting(with completion: JobCompletion) -> [Waiting] {
        state.withLock { state in
            state.last = .now
            state.isCalling = true
            var bytes = completion.size
            var count = 0
            for waiting in state.waiting.prefix(JobQueue.maximumBatchSize - 1) {
                bytes += waiting.completion.size
                if bytes > Self.limit { break }
                count += 1
            }
            defer { state.waiting.removeFirst(count) }
            return Array(state.waiting.prefix(count))
        }
    }

    /// Lets the caller that has waited longest make the next call.
    private func promoteNext() {
        let next = state.withLock { state -> Waiting? in
            state.isCalling = false
            guard !state.waiting.isEmpty else {
                state.isSending = false
                return nil
            }
            return state.waiting.removeFirst()
        }
        next?.turn.resume(returning: .send)
    }
}
