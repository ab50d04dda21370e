internal import Foundation
internal import FoundationNetworking
import Synchronization

/// A decorator's load: what lies beneath may change (another attempt, a cache that has missed), while the caller hears
/// what ``DataLoading`` promises: completion once, and nothing after it or after `cancel()`.
final class RelayedLoad: Cancellable {
    /// What the caller wants to hear.
    struct Listener: Sendable {
        let didReceiveData: @Sendable (Data, URLResponse) -> Void
        let didCollect: @Sendable (LoadTimings) -> Void
        let completion: @Sendable ((any Error)?) -> Void
    }

    private struct State {
        var isOver = false
        /// Which of the loads beneath is the present one.
        var number = 0
        var load: (any Cancellable)?
        var task: Task<Void, Never>?
    }

    private let listener: Listener
    private let state = Mutex(State())

    init(_ listener: Listener) { self.listener = listener }

    private var isOver: Bool { state.withLock { $0.isOver } }

    func receive(_ data: Data, _ response: URLResponse) {
        if !isOver { listener.didReceiveData(data, response) }
    }

    /// Completes, once.
    func complete(_ error: (any Error)?, _ timings: LoadTimings? = nil) {
        let isFirst = state.withLock { state in
            defer { Self.end(&state) }
            return !state.isOver
        }
        guard isFirst else { return }
        if let timings { listener.didCollect(timings) }
        listener.completion(error)
    }

    func cancel() {
        let (load, task) = state.withLock { state in
            defer { Self.end(&state) }
            return (state.load, state.task)
        }
        load?.cancel()
        task?.cancel()
    }

    /// Both hold us, through their closures: to keep them would keep all for ever.
    private static func end(_ state: inout State) {
        state.isOver = true
        state.load = nil
        state.task = nil
    }

    /// Begins a load beneath, unless the caller has gone.
    func begin(_ start: () -> any Cancellable) {
        let number = state.withLock { state -> Int? in
            if state.isOver { return nil }
            state.number += 1
            return state.number
        }
        guard let number else { return }
        let load = start()
        let isOver = state.withLock { state in
            // It may have ended while it began, and the next one may be there already.
            if !state.isOver, state.number == number { state.load = load }
            return state.isOver
        }
        if isOver { load.cancel() }
    }

    /// Does what must wait. Unstructured, as a load begins in a plain function; ended with the load.
    func run(_ work: @escaping @Sendable () async -> Void) {
        let task = Task { await work() }
        let isOver = state.withLock { state in
            if !state.isOver { state.task = task }
            return state.isOver
        }
        if isOver { task.cancel() }
    }
}
