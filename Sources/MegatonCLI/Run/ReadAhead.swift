import MegatonCluster
import Synchronization

/// The jobs of a batch that were read and not pushed. Inputs are read while earlier jobs wait for room in the queue, so
/// that a list that comes slowly delays no job that was read, and jobs of slow hosts are found early.
final class ReadAhead: Sendable {
    private struct State {
        var order = PushOrder()
        var isAtEnd = false
    }

    private let state = Mutex(State())
    /// Signaled when there is room for a reader.
    private let hasRoom = AsyncSignal()
    /// Signaled when there are jobs, or their end.
    private let hasJobs = AsyncSignal()

    /// Waits until there is room for further jobs.
    ///
    /// - Throws: `CancellationError`.
    func waitForRoom() async throws {
        while !state.withLock({ $0.order.hasRoom }) {
            await hasRoom.wait()
            try Task.checkCancellation()
        }
    }

    func add(_ jobs: [JobBuilder.BuiltJob]) {
        state.withLock { $0.order.add(jobs) }
        hasJobs.signal()
    }

    /// No more jobs come.
    func end() {
        state.withLock { $0.isAtEnd = true }
        hasJobs.signal()
    }

    /// Waits until there are jobs.
    ///
    /// - Returns: false at the end.
    /// - Throws: `CancellationError`.
    func waitForJobs() async throws -> Bool {
        while true {
            let (count, isAtEnd) = state.withLock { ($0.order.count, $0.isAtEnd) }
            if count > 0 || isAtEnd { return count > 0 }
            await hasJobs.wait()
            try Task.checkCancellation()
        }
    }

    /// The next jobs; see ``PushOrder/take(_:places:)``.
    func take(_ limit: Int, places: Int) -> [JobBuilder.BuiltJob] {
        let taken = state.withLock { $0.order.take(limit, places: places) }
        hasRoom.signal()
        return taken
    }

    /// Whether jobs of slow hosts wait.
    var isAwaited: Bool { state.withLock { $0.order.isAwaited } }

    /// Counts outcomes.
    func end(_ outcomes: [OutcomeFields]) {
        state.withLock { state in
            for outcome in outcomes {
                guard let host = outcome.source.flatMap(Job.host(ofSource:)) else { continue }
                state.order.end(host, seconds: outcome.status == .done ? outcome.times?.fetching ?? 0 : nil)
            }
        }
    }
}
