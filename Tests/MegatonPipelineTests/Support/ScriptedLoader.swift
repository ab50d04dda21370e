import Foundation
import FoundationNetworking
import Synchronization

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline

/// A loader that answers each request with the next line of its script.
final class ScriptedLoader: TimedDataLoading {
    struct Answer: Sendable {
        var chunks: [Data] = []
        var status = 200
        var headers: [String: String] = [:]
        var error: (any Error)?
        /// Whether the load never ends by itself.
        var isEndless = false
    }

    private struct State {
        var script: [Answer]
        var requests: [URLRequest] = []
        var cancelled = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Mutex<State>

    /// - Parameter script: answers in order; the last one is repeated for all further requests.
    init(_ script: [Answer]) { state = Mutex(State(script: script)) }

    var requests: [URLRequest] { state.withLock { $0.requests } }
    var cancelled: Int { state.withLock { $0.cancelled } }

    /// Returns once a load was cancelled.
    func waitForCancel() async {
        await withCheckedContinuation { continuation in
            let isCancelled = state.withLock { state in
                if state.cancelled > 0 { return true }
                state.waiting.append(continuation)
                return false
            }
            if isCancelled { continuation.resume() }
        }
    }

    private func cancel() {
        let waiting = state.withLock { state in
            state.cancelled += 1
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    private struct Load: Cancellable {
        let onCancel: @Sendable () -> Void
        func cancel() { onCancel() }
    }

    func loadData(
        with request: URLRequest,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        didCollect: @escaping @Sendable (LoadTimings) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) -> any Cancellable {
        let answer = state.withLock { state in
            state.requests.append(request)
            return state.script.count > 1 ? state.script.removeFirst() : state.script[0]
        }
        let load = Load { [self] in cancel() }
        guard let url = request.url,
            let response = HTTPURLResponse(
                url: url,
                statusCode: answer.status,
                httpVersion: nil,
                headerFields: answer.headers
            )
        else { return load }
        let work: @Sendable () -> Void = {
            for chunk in answer.chunks { didReceiveData(chunk, response) }
            if answer.isEndless { return }
            var timings = LoadTimings()
            timings.bytes = answer.chunks.reduce(0) { $0 + $1.count }
            didCollect(timings)
            completion(answer.error)
        }
        // On another thread, as in real loaders.
        Thread.detachNewThread(work)
        return load
    }
}
