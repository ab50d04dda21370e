internal import MegatonRedis
import Synchronization

/// Tells Redis of the ends of jobs, those that come close together in one call.
///
/// One call is under way at a time. What ends meanwhile, or within the gathering time of the last call, goes with the next
/// one: where little ends each is told at once, where much does a script and a round trip serve many. Whoever tells an end
/// waits for what Redis says of it, so that nothing is told that is not known to have been heard; how many wait is bounded by
/// the jobs that a worker has in hand.
final class EndTeller: Sendable {
    private let queue: JobQueue
    private let worker: String
    private let gathering: Duration
    private let state = Mutex(State())

    private struct Waiting {
        let end: EncodedEnd
        let turn: CheckedContinuation<Turn, Never>
    }

    private struct State {
        var waiting: [Waiting] = []
        /// Whether somebody tells, or gathers what to tell.
        var isTelling = false
        /// Whether a call is under way, which takes no more ends.
        var isCalling = false
        /// When the last call was made.
        var last: ContinuousClock.Instant?
    }

    /// What one who waits is told.
    private enum Turn: Sendable {
        /// To make the next call, for others too.
        case tell
        case told(Result<Verdict, RedisError>)
    }

    /// Bytes of one call beyond which it takes no more ends: the script holds them all, and nobody else is served meanwhile.
    static let limit = 1024 * 1024

    /// How many wait for somebody else's call.
    var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// Whether what ends now goes with the next call.
    var isCalling: Bool { state.withLock { $0.isCalling } }

    /// - Parameter gathering: how soon after a call the next one is made.
    init(_ queue: JobQueue, worker: String, gathering: Duration = .milliseconds(20)) {
        self.queue = queue
        self.worker = worker
        self.gathering = gathering
    }

    /// - Returns: what Redis says of this end.
    /// - Throws: where it is not known whether Redis has heard of it. It may be told again.
    func tell(_ end: JobEnd) async throws(RedisError) -> Verdict {
        let end = EncodedEnd(end)
        let turn = await withCheckedContinuation { (continuation: CheckedContinuation<Turn, Never>) in
            let isFirst = state.withLock { state in
                if state.isTelling {
                    state.waiting.append(Waiting(end: end, turn: continuation))
                    return false
                }
                state.isTelling = true
                return true
            }
            if isFirst { continuation.resume(returning: .tell) }
        }
        switch turn {
        case .tell: return try await tellAll(with: end).get()
        case .told(let result): return try result.get()
        }
    }

    private func tellAll(with end: EncodedEnd) async -> Result<Verdict, RedisError> {
        if let next = state.withLock({ $0.last })?.advanced(by: gathering), next > .now {
            try? await Task.sleep(until: next, clock: .continuous)  // Cancelled: it is told at once.
        }
        let others = take(with: end)
        let result: Result<[Verdict], RedisError>
        do throws(RedisError) {
            result = .success(try await queue.settle([end] + others.map(\.end), worker: worker))
        } catch {
            result = .failure(error)
        }
        passOn()
        // Told to all alike: each knows for how long he may tell it again.
        for (index, other) in others.enumerated() { other.turn.resume(returning: .told(result.map { $0[index + 1] })) }
        return result.map { $0[0] }
    }

    /// What goes in the same call.
    private func take(with end: EncodedEnd) -> [Waiting] {
        state.withLock { state in
            state.last = .now
            state.isCalling = true
            var bytes = end.size
            var count = 0
            for waiting in state.waiting.prefix(JobQueue.maximumEnds - 1) {
                bytes += waiting.end.size
                if bytes > Self.limit { break }
                count += 1
            }
            defer { state.waiting.removeFirst(count) }
            return Array(state.waiting.prefix(count))
        }
    }

    /// Whoever has waited the longest makes the next call.
    private func passOn() {
        let next = state.withLock { state -> Waiting? in
            state.isCalling = false
            guard !state.waiting.isEmpty else {
                state.isTelling = false
                return nil
            }
            return state.waiting.removeFirst()
        }
        next?.turn.resume(returning: .tell)
    }
}
