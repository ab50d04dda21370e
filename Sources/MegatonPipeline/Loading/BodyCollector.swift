internal import Foundation
internal import FoundationNetworking
import Synchronization

/// Gathers the chunks of one load and answers once, whichever comes first: completion, the byte limit or cancellation.
final class BodyCollector: Sendable {
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
    private let onProgress: @Sendable (Int64, Int64) -> Void
    private let isPartialWanted: @Sendable () -> Bool
    private let onPartial: @Sendable (Data, URLResponse) -> Void
    private let state = Mutex(State())

    init(
        limit: Int,
        onProgress: @escaping @Sendable (Int64, Int64) -> Void,
        isPartialWanted: @escaping @Sendable () -> Bool = { false },
        onPartial: @escaping @Sendable (Data, URLResponse) -> Void = { _, _ in }
    ) {
        self.limit = limit
        self.onProgress = onProgress
        self.isPartialWanted = isPartialWanted
        self.onPartial = onPartial
    }

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
        let count = state.withLock { state -> Int? in
            if state.isAnswered { return nil }
            if state.response == nil {
                let expected = Int(clamping: response.expectedContentLength)
                if expected > 0 { state.data.reserveCapacity(min(expected, limit)) }
            }
            state.response = response
            state.data.append(data)
            return state.data.count
        }
        guard let count else { return }
        if count > limit {
            fail(ImagePipeline.Error(.dataTooLarge, "The body is larger than \(limit) bytes."))
        } else {
            onProgress(Int64(count), max(0, response.expectedContentLength))
            let expected = response.expectedContentLength
            guard expected <= 0 || count < expected, isPartialWanted() else { return }
            onPartial(state.withLock { $0.data }, response)
        }
    }

    @Sendable func complete(_ error: (any Error)?) {
        if let error {
            let known = error as? ImagePipeline.Error
            fail(known ?? ImagePipeline.Error(.dataLoadingFailed, "The loader failed: \(error)"))
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
