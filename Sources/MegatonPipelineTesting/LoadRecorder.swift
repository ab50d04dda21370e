import Foundation
import FoundationNetworking
import MegatonPipeline
import Synchronization

/// Takes the calls of one load and notes what the contract forbids whatever the load is of.
final class LoadRecorder: Sendable {
    private struct State {
        var record = LoadRecord()
        /// Calls that have not returned yet.
        var running = 0
        /// To be cancelled from within the next call.
        var toCancel: (any Cancellable)?
        var watchers: [AsyncStream<Void>.Continuation] = []
    }

    private let state = Mutex(State())
    private let onEnd: @Sendable () -> Void

    /// Turns of other threads for which each call is drawn out, so that a second one would overlap with it.
    private static let lingering = 20

    /// - Parameter onEnd: called when nobody holds the recorder, and so none of its load's closures, any more.
    init(onEnd: @escaping @Sendable () -> Void = {}) { self.onEnd = onEnd }

    deinit { onEnd() }

    var record: LoadRecord { state.withLock { $0.record } }

    /// The next call of `didReceiveData` cancels the load.
    func cancelWithinNextCall(_ load: any Cancellable) { state.withLock { $0.toCancel = load } }

    /// `cancel()` has returned.
    func noteCancelled() {
        state.withLock { $0.record.isCancelled = true }
        tellWatchers()
    }

    @Sendable func receive(_ data: Data, _ response: URLResponse) {
        call("didReceiveData") { $0.chunks.append(LoadRecord.Chunk(data: data, response: response)) }
    }

    @Sendable func complete(_ error: (any Error)?) {
        call("completion") { $0.completions.append(error.map { "\($0)" }) }
    }

    private func call(_ name: String, _ note: (inout LoadRecord) -> Void) {
        let toCancel = state.withLock { state -> (any Cancellable)? in
            state.running += 1
            if state.running > 1 { state.record.violations.append("\(name) was called while another call was running") }
            if state.record.isCancelled { state.record.violations.append("\(name) was called after cancel()") }
            if state.record.isComplete { state.record.violations.append("\(name) was called after completion") }
            note(&state.record)
            defer { state.toCancel = nil }
            return state.toCancel
        }
        for _ in 0..<Self.lingering { sched_yield() }
        if let toCancel {
            toCancel.cancel()
            noteCancelled()
        }
        state.withLock { $0.running -= 1 }
        tellWatchers()
    }

    private func tellWatchers() {
        for watcher in state.withLock({ $0.watchers }) { watcher.yield() }
    }

    /// - Returns: what has been seen when the condition holds; nil where it does not within the patience.
    func wait(
        _ patience: Duration,
        until isMet: @escaping @Sendable (LoadRecord) -> Bool
    ) async -> LoadRecord? {
        let (changes, watcher) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        state.withLock { $0.watchers.append(watcher) }
        watcher.yield()
        return await withTaskGroup(of: LoadRecord?.self) { group in
            group.addTask { [self] in
                for await _ in changes {
                    let record = record
                    if isMet(record) { return record }
                }
                return nil
            }
            group.addTask {
                // Cancelled when the condition holds: the error says nothing else.
                try? await Task.sleep(for: patience)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
    }
}
