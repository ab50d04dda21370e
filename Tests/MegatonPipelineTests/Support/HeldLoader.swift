import Foundation
import FoundationNetworking
import MegatonPipeline
import MegatonTestSupport
import Synchronization

/// A loader whose responses wait until a test releases them.
final class HeldLoader: DataLoading {
    private struct Load {
        let request: URLRequest
        let receive: @Sendable (Data, URLResponse) -> Void
        let complete: @Sendable ((any Error)?) -> Void
        var hasSent = false
        var isOver = false
    }

    private struct State {
        var loads: [Load] = []
        var isHeld: Bool
    }

    private struct Handle: Cancellable {
        let action: @Sendable () -> Void

        func cancel() { action() }
    }

    let requests = TestLog<URLRequest>()
    let cancels = TestLog<Int>()
    private let body: Data
    private let state: Mutex<State>

    /// - Parameter isHeld: false if it responds at once, on a thread of its own.
    init(_ body: Data = TestPipeline.png, isHeld: Bool = true) {
        self.body = body
        state = Mutex(State(isHeld: isHeld))
    }

    var paths: [String] { requests.values.map { $0.url?.lastPathComponent ?? "" } }

    func loadData(
        with request: URLRequest,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) -> any Cancellable {
        let (number, isHeld) = state.withLock { state in
            state.loads.append(Load(request: request, receive: didReceiveData, complete: completion))
            return (state.loads.count - 1, state.isHeld)
        }
        requests.append(request)
        if !isHeld { Thread.detachNewThread { [self] in finish(number) } }
        return Handle { [self] in
            let wasRunning = state.withLock { state in
                defer { state.loads[number].isOver = true }
                return !state.loads[number].isOver
            }
            if wasRunning { cancels.append(number) }
        }
    }

    /// Sends a part of a load's body.
    func send(_ chunk: Data, of number: Int = 0) {
        let load = state.withLock { state in
            defer { state.loads[number].hasSent = true }
            return state.loads[number]
        }
        guard !load.isOver, let url = load.request.url, let response = response(url) else { return }
        load.receive(chunk, response)
    }

    /// Ends a load. Sends the body first, unless parts of it were sent or the load fails.
    func finish(_ number: Int, error: (any Error)? = nil) {
        if error == nil, !state.withLock({ $0.loads[number].hasSent }) { send(body, of: number) }
        let load = state.withLock { state in
            defer { state.loads[number].isOver = true }
            return state.loads[number]
        }
        if !load.isOver { load.complete(error) }
    }

    /// Ends all loads; later ones are answered at once.
    func release() {
        let count = state.withLock { state in
            state.isHeld = false
            return state.loads.count
        }
        for number in 0..<count { finish(number) }
    }

    private func response(_ url: URL) -> HTTPURLResponse? {
        HTTPURLResponse(
            url: url,
            statusCode: 200,
            httpVersion: "HTTP/1.1",
            headerFields: ["Content-Length": "\(body.count)", "Cache-Control": "max-age=3600"]
        )
    }
}
