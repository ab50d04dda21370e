import Foundation
import FoundationNetworking
import MegatonPipeline
import Synchronization

/// Receives the calls of one load, and records those that the contract forbids for any resource.
final class LoadRecorder: Sendable {
    private struct State {
        var record = LoadRecord()
        /// Calls that have not returned yet.
        var running = 0
        /// A load that the next call cancels from within.
        var toCancel: (any Cancellable)?
        var watchers: [AsyncStream<Void>.Continuation] = []
    }

    private let state = Mutex(State())
    private let onEnd: @Sendable () -> Void

    /// Number of times that each call yields to other threads, so that a concurrent second call would overlap with it.
    private static let lingering = 20

    /// - Parameter onEnd: called when the recorder, and with it every closure of its load, has been released.
    init(onEnd: @escaping @Sendable () -> Void = {}) { self.onEnd = onEnd }

    deinit { onEnd() }

    var record: LoadRecord { state.withLock { $0.record } }

    /// Makes the next call, of either closure, cancel the load.
    func cancelWithinNextCall(_ load: any Cancellable) { state.withLock { $0.toCancel = load } }

    /// Records that `cancel()` has returned.
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

    /// - Returns: the record once the condition holds; nil if it does not hold within `patience`.
    func wait(
        _ patience: Duration,
        until isMet: @escaping @Sendable (LoadRecord) -> Bool
    ) async -> LoadRecord? {
        let (changes, watcher) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        state.withLock { $0.watchers.append(watcher) }
        watcher.yield()
        return await TimeLimit.wait(atMost: patience) { [self] in
            for await _ in changes {
                let record = record
                if isMet(record) { return record }
            }
            return nil
        }
    }
}

#if MEGATON_SANITIZE
    @_exported public import MegatonCore

    // As `Synchronization.Mutex`, for sanitizers; exported so that all files of this module see its members.
    typealias Mutex = MegatonCore.Mutex
#endif
