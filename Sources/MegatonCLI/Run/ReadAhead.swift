import MegatonCluster
import Synchronization

/// The jobs of a batch that were read and not pushed. Inputs are read while earlier jobs wait for room in the queue, so
/// that a list that comes slowly delays no job that was read, and jobs of slow hosts are found early.
final class ReadAhead: Sendable {
    private struct State {
        var order: PushOrder
        var readCount = 0
        var isAtEnd = false
        var isStopped = false
    }

    private let isFollowed: Bool
    private let state: Mutex<State>
    /// Signaled when there is room for a reader, or when no more jobs are wanted.
    private let roomChanged = AsyncSignal()
    /// Signaled when there are jobs, or their end.
    private let jobsChanged = AsyncSignal()

    /// - Parameter isFollowed: whether the outcomes of the jobs are noted.
    init(isFollowed: Bool) {
        self.isFollowed = isFollowed
        state = Mutex(State(order: PushOrder(isFollowed: isFollowed)))
    }

    /// Jobs that were read, and whether these are all.
    var progress: (count: Int, isAtEnd: Bool) { state.withLock { ($0.readCount, $0.isAtEnd) } }

    /// Whether jobs of slow hosts are among them.
    var hasSlowJobs: Bool { state.withLock { $0.order.hasSlowJobs() } }

    // MARK: - For the reader

    /// Waits until there is room for further jobs.
    ///
    /// - Returns: false if no more jobs are wanted.
    /// - Throws: `CancellationError`.
    func waitForRoom() async throws -> Bool {
        while true {
            try Task.checkCancellation()
            let (hasRoom, isStopped) = state.withLock { ($0.order.hasRoom, $0.isStopped) }
            if hasRoom || isStopped { return !isStopped }
            await roomChanged.wait()
        }
    }

    func add(_ jobs: [JobBuilder.BuiltJob]) {
        state.withLock { state in
            state.order.add(jobs)
            state.readCount += jobs.count
        }
        jobsChanged.signal()
    }

    /// No more jobs come.
    func finish() {
        state.withLock { $0.isAtEnd = true }
        jobsChanged.signal()
    }

    // MARK: - For the pusher

    /// Waits until there are jobs.
    ///
    /// - Returns: false at the end.
    /// - Throws: `CancellationError`.
    func waitForJobs() async throws -> Bool {
        while true {
            try Task.checkCancellation()
            let (count, isAtEnd) = state.withLock { ($0.order.count, $0.isAtEnd) }
            if count > 0 || isAtEnd { return count > 0 }
            await jobsChanged.wait()
        }
    }

    /// The next jobs; see ``PushOrder/take(_:longFetches:at:)``.
    func take(_ limit: Int, longFetches: Int) -> (early: [JobBuilder.BuiltJob], due: [JobBuilder.BuiltJob]) {
        let taken = state.withLock { $0.order.take(limit, longFetches: longFetches) }
        roomChanged.signal()
        return taken
    }

    /// The jobs that go before their turn; see ``PushOrder/takeEarly(_:longFetches:at:)``.
    func takeEarly(_ limit: Int, longFetches: Int) -> [JobBuilder.BuiltJob] {
        let taken = state.withLock { $0.order.takeEarly(limit, longFetches: longFetches) }
        if !taken.isEmpty { roomChanged.signal() }
        return taken
    }

    /// See ``PushOrder/unjudged``.
    var unjudged: [String] { state.withLock { $0.order.unjudged } }

    /// See ``PushOrder/endedEarly``.
    var endedEarly: Int { state.withLock { $0.order.endedEarly } }

    /// See ``PushOrder/mayFindSlowHosts``.
    var mayFindSlowHosts: Bool { state.withLock { $0.order.mayFindSlowHosts } }

    /// See ``PushOrder/answer(_:at:)``.
    func answer(_ answers: [String: JobQueue.HostAnswer]) { state.withLock { $0.order.answer(answers) } }

    /// No more jobs are wanted.
    func stop() {
        state.withLock { $0.isStopped = true }
        roomChanged.signal()
    }

    /// Notes outcomes.
    func record(_ outcomes: [OutcomeFields]) {
        guard isFollowed else { return }
        let ended = outcomes.compactMap { outcome in
            outcome.source.flatMap(Job.host(ofSource:)).map { (host: $0, outcome: Self.outcome(outcome)) }
        }
        state.withLock { state in
            for (host, outcome) in ended { state.order.end(host, outcome) }
        }
    }

    private static func outcome(_ fields: OutcomeFields) -> PushOrder.Outcome {
        switch fields.status {
        case .done: .fetched(fields.times?.fetching ?? 0)
        case .failed: fields.error?.retryable == true ? .failed : .other
        case .cancelled, .deduplicated: .other
        }
    }
}
