package import Foundation
package import FoundationNetworking
import Synchronization

/// A decorator's load. The underlying load may change (another attempt, or a fetch after a cache miss), while the
/// caller gets the guarantees of ``DataLoading``: one completion, and no call after it or after `cancel()`.
package final class RelayedLoad: Cancellable {
    /// Closures of the caller.
    package struct Listener: Sendable {
        let didReceiveData: @Sendable (Data, URLResponse) -> Void
        let didCollect: @Sendable (LoadTimings) -> Void
        let completion: @Sendable ((any Error)?) -> Void

        package init(
            didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
            didCollect: @escaping @Sendable (LoadTimings) -> Void,
            completion: @escaping @Sendable ((any Error)?) -> Void
        ) {
            self.didReceiveData = didReceiveData
            self.didCollect = didCollect
            self.completion = completion
        }
    }

    private struct State {
        var isOver = false
        /// Number of the current underlying load.
        var number = 0
        var load: (any Cancellable)?
        var task: Task<Void, Never>?
    }

    private let listener: Listener
    private let gate = DeliveryGuard()
    private let state = Mutex(State())

    package init(_ listener: Listener) { self.listener = listener }

    package func receive(_ data: Data, _ response: URLResponse) {
        gate.call { listener.didReceiveData(data, response) }
    }

    /// Completes the load, once.
    package func complete(_ error: (any Error)?, _ timings: LoadTimings? = nil) {
        state.withLock { Self.end(&$0) }
        gate.end {
            if let timings { listener.didCollect(timings) }
            listener.completion(error)
        }
    }

    package func cancel() {
        gate.close()
        let (load, task) = state.withLock { state in
            defer { Self.end(&state) }
            return (state.load, state.task)
        }
        load?.cancel()
        task?.cancel()
    }

    /// Both retain this object by their closures: keeping them would leak it.
    private static func end(_ state: inout State) {
        state.isOver = true
        state.load = nil
        state.task = nil
    }

    /// Starts an underlying load, unless this load is over.
    package func begin(_ start: () -> any Cancellable) {
        let number = state.withLock { state -> Int? in
            if state.isOver { return nil }
            state.number += 1
            return state.number
        }
        guard let number else { return }
        let load = start()
        let isOver = state.withLock { state in
            // The load may have ended during `start`, and the next one may have begun.
            if !state.isOver, state.number == number { state.load = load }
            return state.isOver
        }
        if isOver { load.cancel() }
    }

    /// Runs asynchronous work, cancelled with the load. Unstructured, because a load begins in a synchronous function.
    package func run(_ work: @escaping @Sendable () async -> Void) {
        let task = Task { await work() }
        let isOver = state.withLock { state in
            if !state.isOver { state.task = task }
            return state.isOver
        }
        if isOver { task.cancel() }
    }
}
