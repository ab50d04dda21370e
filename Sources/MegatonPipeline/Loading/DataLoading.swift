public import Foundation
public import FoundationNetworking
import Synchronization

/// Fetches bytes: Nuke's protocol, with its contract of four points.
///
/// 1. Both closures may be called on any thread, one call at a time.
/// 2. `didReceiveData` is called for each chunk as it arrives, with the response each time.
/// 3. `completion` is called exactly once, after all chunks: nil for success.
/// 4. After `cancel()` neither is called any more.
///
/// A 304 to a conditional request (`If-None-Match`, `If-Modified-Since`) is a success: empty data, with the response.
/// A loader that makes an error of it still works; nothing is revalidated then.
public protocol DataLoading: Sendable {
    func loadData(
        with request: URLRequest,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) -> any Cancellable
}

extension DataLoading {
    /// The whole body. Cancelling the task cancels the load.
    ///
    /// - Parameter limit: bytes, counted while they stream.
    /// - Throws: `ImagePipeline.Error`; an error of another type becomes `.unreachable`.
    func data(
        for request: URLRequest,
        limit: Int
    ) async throws(ImagePipeline.Error) -> (data: Data, response: URLResponse?) {
        let body = BodyCollector(limit: limit)
        let result: Result<(Data, URLResponse?), ImagePipeline.Error> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                body.start(continuation)
                let load = loadData(with: request, didReceiveData: body.append, completion: body.complete)
                body.attach(load)
            }
        } onCancel: {
            body.fail(
                ImagePipeline.Error(.cancelled, "The fetch of \(request.url?.absoluteString ?? "") was cancelled.")
            )
        }
        return try result.get()
    }
}

/// Gathers the chunks of one load and answers once, whichever comes first: completion, the byte limit or cancellation.
private final class BodyCollector: Sendable {
    typealias Answer = Result<(Data, URLResponse?), ImagePipeline.Error>

    private struct State {
        var data = Data()
        var response: URLResponse?
        var continuation: CheckedContinuation<Answer, Never>?
        var early: Answer?
        var isAnswered = false
        var load: (any Cancellable)?
    }

    private let limit: Int
    private let state = Mutex(State())

    init(limit: Int) { self.limit = limit }

    func start(_ continuation: CheckedContinuation<Answer, Never>) {
        let early = state.withLock { state -> Answer? in
            if let early = state.early { return early }
            state.continuation = continuation
            return nil
        }
        if let early { continuation.resume(returning: early) }
    }

    /// The load is told to stop if it began after the answer was given.
    func attach(_ load: any Cancellable) {
        let isAnswered = state.withLock { state in
            // The load holds our closures: to keep it beyond the answer would keep both for ever.
            if !state.isAnswered { state.load = load }
            return state.isAnswered
        }
        if isAnswered { load.cancel() }
    }

    @Sendable func append(_ data: Data, _ response: URLResponse) {
        let isTooLarge = state.withLock { state in
            if state.isAnswered { return false }
            if state.response == nil {
                let expected = Int(clamping: response.expectedContentLength)
                if expected > 0 { state.data.reserveCapacity(min(expected, limit)) }
            }
            state.response = response
            state.data.append(data)
            return state.data.count > limit
        }
        if isTooLarge {
            fail(ImagePipeline.Error(.dataTooLarge, "The body is larger than \(limit) bytes."))
        }
    }

    @Sendable func complete(_ error: (any Error)?) {
        if let error {
            let known = error as? ImagePipeline.Error
            fail(known ?? ImagePipeline.Error(.unreachable, "The loader failed: \(error)"))
        } else {
            answer { .success(($0.data, $0.response)) }
        }
    }

    func fail(_ error: ImagePipeline.Error) {
        answer { _ in .failure(error) }
    }

    private func answer(_ make: (State) -> Answer) {
        let (continuation, answer, load) = state.withLock {
            state -> (CheckedContinuation<Answer, Never>?, Answer?, (any Cancellable)?) in
            guard !state.isAnswered else { return (nil, nil, nil) }
            state.isAnswered = true
            let answer = make(state)
            state.data = Data()
            if state.continuation == nil { state.early = answer }
            defer { state.load = nil }
            return (state.continuation, answer, state.load)
        }
        load?.cancel()
        if let continuation, let answer { continuation.resume(returning: answer) }
    }
}
