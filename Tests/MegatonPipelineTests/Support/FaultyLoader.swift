import Foundation
import FoundationNetworking
import MegatonPipeline
import Synchronization

/// A loader that breaks one point of the contract.
final class FaultyLoader: DataLoading {
    enum Fault: String, Sendable {
        case completesTwice, speaksAfterCompletion, isDeafToCancel, tellsOfItsCancellation, gathersTheBody, hidesErrors
        case dropsHeaders, losesAChunk, mixesUp, forgetsTheResponse, holdsOn, overlaps, speaksOfNothing
        case completesWhenCancelled, cancelsTheNext
    }

    typealias Receive = @Sendable (Data, URLResponse) -> Void
    typealias Complete = @Sendable ((any Error)?) -> Void

    /// Events received from one load.
    private final class Seen: Sendable {
        private let state = Mutex((chunks: 0, body: Data(), response: URLResponse?.none))

        var body: Data { state.withLock { $0.body } }
        var response: URLResponse { state.withLock { $0.response } ?? FaultyLoader.noResponse }

        /// - Returns: the number of chunks so far, including this one.
        func note(_ data: Data, _ response: URLResponse) -> Int {
            state.withLock { state in
                state.chunks += 1
                state.body.append(data)
                state.response = response
                return state.chunks
            }
        }
    }

    private struct Cancel: Cancellable {
        let action: @Sendable () -> Void

        func cancel() { action() }
    }

    private let loader: any DataLoading
    private let fault: Fault
    private let held = Mutex<[Receive]>([])
    private let loads = Mutex<[any Cancellable]>([])

    init(_ loader: any DataLoading, _ fault: Fault) {
        self.loader = loader
        self.fault = fault
    }

    func loadData(
        with request: URLRequest,
        didReceiveData: @escaping Receive,
        completion: @escaping Complete
    ) -> any Cancellable {
        var request = request
        if fault == .dropsHeaders { request.allHTTPHeaderFields = [:] }
        let seen = Seen()
        let receive = receiving(seen, didReceiveData)
        let load = loader.loadData(with: request, didReceiveData: receive) { [fault] error in
            if fault == .gathersTheBody { didReceiveData(seen.body, seen.response) }
            if fault == .speaksOfNothing, seen.body.isEmpty { didReceiveData(Data([0]), seen.response) }
            completion(fault == .hidesErrors ? nil : error)
            if fault == .completesTwice { completion(nil) }
            if fault == .speaksAfterCompletion { didReceiveData(Data(), seen.response) }
        }
        return cancellable(load, completion)
    }

    private func receiving(_ seen: Seen, _ receive: @escaping Receive) -> Receive {
        let other = held.withLock { held in
            defer { if fault == .holdsOn || fault == .mixesUp { held.append(receive) } }
            return fault == .mixesUp ? held.last : nil
        }
        return { [fault] data, response in
            let chunks = seen.note(data, response)
            switch fault {
            case .gathersTheBody: break
            case .losesAChunk where chunks == 2: break
            case .mixesUp: (other ?? receive)(data, response)
            case .forgetsTheResponse: receive(data, Self.noResponse)
            case .overlaps:
                let thread = Thread { receive(data, response) }
                thread.start()
                receive(data, response)
            default: receive(data, response)
            }
        }
    }

    private func cancellable(_ load: any Cancellable, _ completion: @escaping Complete) -> any Cancellable {
        let number = loads.withLock { loads in
            if fault == .cancelsTheNext { loads.append(load) }
            return loads.count
        }
        return Cancel { [self] in
            switch fault {
            case .isDeafToCancel: break
            case .tellsOfItsCancellation:
                load.cancel()
                let thread = Thread { completion(CancellationError()) }
                thread.start()
            case .completesWhenCancelled: completion(CancellationError())
            case .cancelsTheNext:
                loads.withLock { $0.count > number ? $0[number] : nil }?.cancel()
                load.cancel()
            default: load.cancel()
            }
        }
    }

    private static var noResponse: URLResponse {
        URLResponse(
            url: URL(fileURLWithPath: "/"),
            mimeType: nil,
            expectedContentLength: -1,
            textEncodingName: nil
        )
    }
}
