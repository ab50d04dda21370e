import Foundation
import FoundationNetworking
import Synchronization

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline

/// The callbacks of one load, in order, and whether they conform to the contract of ``DataLoading``.
final class LoadProbe: Sendable {
    struct State {
        var chunks: [Data] = []
        var responses: [URLResponse] = []
        var timings: [LoadTimings] = []
        var completions = 0
        var error: (any Error)?
        /// Calls after the completion.
        var late = 0
        var load: (any Cancellable)?
        var waiting: [CheckedContinuation<Void, Never>] = []
        var waitingForData: [CheckedContinuation<Void, Never>] = []
    }

    let state = Mutex(State())
    /// Called within each chunk's callback.
    let onData: @Sendable (LoadProbe) -> Void

    init(onData: @escaping @Sendable (LoadProbe) -> Void = { _ in }) { self.onData = onData }

    /// Loads and waits for the completion.
    static func load(_ request: URLRequest, with loader: any DataLoading) async -> LoadProbe {
        let probe = LoadProbe()
        probe.start(request, with: loader)
        await probe.ended()
        return probe
    }

    static func load(_ url: URL, with loader: any DataLoading) async -> LoadProbe {
        await load(URLRequest(url: url), with: loader)
    }

    func start(_ request: URLRequest, with loader: any DataLoading) {
        let load = loader.timedLoad(
            with: request,
            didReceiveData: { [self] data, response in
                let waiting = state.withLock { state in
                    if state.completions > 0 { state.late += 1 }
                    state.chunks.append(data)
                    state.responses.append(response)
                    defer { state.waitingForData = [] }
                    return state.waitingForData
                }
                for continuation in waiting { continuation.resume() }
                onData(self)
            },
            didCollect: { [self] timings in state.withLock { $0.timings.append(timings) } },
            completion: { [self] error in
                let waiting = state.withLock { state in
                    state.completions += 1
                    state.error = error
                    state.load = nil
                    defer { state.waiting = [] }
                    return state.waiting
                }
                for continuation in waiting { continuation.resume() }
            }
        )
        state.withLock { if $0.completions == 0 { $0.load = load } }
    }

    func cancel() { state.withLock { $0.load }?.cancel() }

    func ended() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if state.completions > 0 { return true }
                state.waiting.append(continuation)
                return false
            }
            if isOver { continuation.resume() }
        }
    }

    func hasData() async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if !state.chunks.isEmpty { return true }
                state.waitingForData.append(continuation)
                return false
            }
            if isThere { continuation.resume() }
        }
    }

    var data: Data { state.withLock { $0.chunks.reduce(Data(), +) } }
    var response: HTTPURLResponse? { state.withLock { $0.responses.last as? HTTPURLResponse } }
    var error: (any Error)? { state.withLock { $0.error } }
    var failure: ImagePipeline.Error? { error as? ImagePipeline.Error }
    var timings: LoadTimings? { state.withLock { $0.timings.last } }
    var completions: Int { state.withLock { $0.completions } }
    var chunks: Int { state.withLock { $0.chunks.count } }
    var late: Int { state.withLock { $0.late } }
}

extension DataLoader {
    /// A loader that may connect to loopback.
    static func local(_ change: (inout Configuration) -> Void = { _ in }) -> DataLoader {
        var configuration = Configuration()
        configuration.addressPolicy.allowsPrivate = true
        change(&configuration)
        return DataLoader(configuration)
    }
}
