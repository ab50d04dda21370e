internal import Foundation
internal import FoundationNetworking
import Synchronization

/// Collects the chunks of one load. Returns one outcome, by completion, byte limit or cancellation: the first one
/// counts.
final class BodyAccumulator: Sendable {
    typealias Answer = ResumableDownload.Outcome

    fileprivate struct State {
        var download: ResumableDownload
        var continuation: CheckedContinuation<Answer, Never>?
        var early: Answer?
        var isAnswered = false
        var load: (any Cancellable)?
        /// Whether the observer has said that all bytes are needed.
        var needsAll = false
    }

    /// Result of a chunk.
    private enum Step {
        case late
        case isTooLarge
        /// The load has to be cancelled: its response does not continue the bytes here.
        case isUseless
        /// The bytes cannot be stored.
        case failed(ImageError)
        /// The rest of the body is not needed.
        case isEnough
        case progress(Int64, Int64, part: ResumableDownload?)
    }

    private let limit: Int
    private let observer: DownloadObserver
    private let state: Mutex<State>

    /// - Parameter limit: bytes of the whole body, including resumed ones.
    init(_ download: ResumableDownload, limit: Int, observer: DownloadObserver) {
        self.limit = limit
        self.observer = observer
        state = Mutex(State(download: download))
    }

    func start(_ continuation: CheckedContinuation<Answer, Never>) {
        let early = state.withLock { state -> Answer? in
            if let early = state.early { return early }
            state.continuation = continuation
            return nil
        }
        if let early { continuation.resume(returning: early) }
    }

    /// Cancels the load at once if the outcome is known already.
    func attach(_ load: any Cancellable) {
        let isAnswered = state.withLock { state in
            // The load retains this object by its closures: keeping it beyond the outcome would leak both.
            if !state.isAnswered { state.load = load }
            return state.isAnswered
        }
        if isAnswered { load.cancel() }
    }

    @Sendable func append(_ data: Data, _ response: URLResponse) {
        let step = state.withLock { state -> Step in
            if state.isAnswered { return .late }
            guard state.download.receive(data, response) else {
                return state.download.failure.map { .failed($0) } ?? .isUseless
            }
            if state.download.count > limit { return .isTooLarge }
            let (completed, total) = state.download.progress
            if let total, total <= limit, state.isEnough(completed, of: total, observer) { return .isEnough }
            let wantsPart = completed != total && observer.wantsPart()
            return .progress(Int64(completed), Int64(total ?? 0), part: wantsPart ? state.download : nil)
        }
        switch step {
        case .late: break
        case .isUseless: answer { _ in .again }
        case .isEnough: answer { $0.endEarly() }
        case .failed(let error): answer { _ in .failed(error, kept: nil) }
        case .isTooLarge: fail(ImageError(.dataTooLarge, "The body is larger than the limit of \(limit) bytes."))
        case .progress(let completed, let total, let part):
            observer.onProgress(completed, total)
            if let part { observer.onPart(part) }
        }
    }

    @Sendable func complete(_ error: (any Error)?) {
        if let error {
            let known = error as? ImageError
            fail(known ?? ImageError(.dataLoadingFailed, "The loader failed: \(error)", underlying: error))
        } else {
            answer { $0.end(nil) }
        }
    }

    func fail(_ error: ImageError) {
        answer { $0.end(error) }
    }

    private func answer(_ make: (inout ResumableDownload) -> Answer) {
        let (continuation, answer, load) = state.withLock {
            state -> (CheckedContinuation<Answer, Never>?, Answer?, (any Cancellable)?) in
            guard !state.isAnswered else { return (nil, nil, nil) }
            state.isAnswered = true
            let answer = make(&state.download)
            state.download.clear()
            if state.continuation == nil { state.early = answer }
            defer { state.load = nil }
            return (state.continuation, answer, state.load)
        }
        load?.cancel()
        if let continuation, let answer { continuation.resume(returning: answer) }
    }
}

extension BodyAccumulator.State {
    /// Asks the observer whether the bytes so far are enough.
    fileprivate mutating func isEnough(_ completed: Int, of total: Int, _ observer: DownloadObserver) -> Bool {
        guard let findNeed = observer.need, !needsAll, download.isWhole,
            total - completed >= DownloadObserver.leastSaved
        else { return false }
        let need = download.withBytes(findNeed)
        needsAll = need == .all
        return need == .nothing
    }
}

/// Observer of a body while it arrives. Called on the loader's thread, one call at a time.
package struct DownloadObserver: Sendable {
    /// Receives the bytes so far and in total (0 if unknown).
    var onProgress: @Sendable (_ completed: Int64, _ total: Int64) -> Void = { _, _ in }
    /// Whether to call `onPart` after this chunk. Called with a lock held, so it must only read state.
    var wantsPart: @Sendable () -> Bool = { false }
    /// Receives the unfinished body. Keeping it costs a copy of all bytes with the next chunk.
    var onPart: @Sendable (ResumableDownload) -> Void = { _ in }
    /// Receives the timings before the load ends, if the loader reports them.
    var onTimings: @Sendable (LoadTimings) -> Void = { _ in }
    /// How much more than the bytes so far is needed. Without it, all of the body is loaded. Called with a lock held,
    /// and only if the length of the body is known and much of it is left.
    var need: (@Sendable (_ body: UnsafeRawBufferPointer) -> Need)?

    /// How much of a body is needed.
    package enum Need: Sendable {
        /// All of it. The observer is not asked again.
        case all
        /// More than the bytes so far; how much is not known yet.
        case more
        /// Nothing more: the load ends here.
        case nothing
    }

    /// Bytes that an early end must save at least: over HTTP/1.1 it costs the connection, and a new one three round
    /// trips, in which a link of 8 Mbit/s with 40 ms to the origin brings as many.
    static let leastSaved = 128 << 10

    package init(
        onProgress: @escaping @Sendable (_ completed: Int64, _ total: Int64) -> Void = { _, _ in },
        wantsPart: @escaping @Sendable () -> Bool = { false },
        onPart: @escaping @Sendable (ResumableDownload) -> Void = { _ in },
        onTimings: @escaping @Sendable (LoadTimings) -> Void = { _ in },
        need: (@Sendable (_ body: UnsafeRawBufferPointer) -> Need)? = nil
    ) {
        self.onProgress = onProgress
        self.wantsPart = wantsPart
        self.onPart = onPart
        self.onTimings = onTimings
        self.need = need
    }
}
