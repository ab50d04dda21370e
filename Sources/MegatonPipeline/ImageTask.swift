import Synchronization

/// A request under way: Nuke's task, in the shape of Nuke 14.
///
/// It runs from the moment it is made, whether anybody waits or not. Every stream of events tells what is known first, so
/// that one who comes late gets the progress and the end (Nuke 13 told him nothing).
public final class ImageTask: Sendable, Identifiable {
    public typealias Error = ImagePipeline.Error

    /// Bytes of a download.
    public struct Progress: Sendable, Hashable {
        public let completed: Int64
        /// 0 where the origin does not say.
        public let total: Int64

        public init(completed: Int64, total: Int64) {
            self.completed = completed
            self.total = total
        }

        /// 0 to 1; 0 where the total is unknown.
        public var fraction: Float { total > 0 ? min(1, Float(completed) / Float(total)) : 0 }
    }

    /// What happens to a task, in this order: `started`, any progress and previews, `finished`.
    public enum Event: Sendable {
        /// For the delegate alone: a stream of events begins when there is news, as in Nuke.
        case started
        case progress(Progress)
        /// A picture of what has come so far.
        case preview(ImageResponse)
        /// Once, and last.
        case finished(Result<ImageResponse, Error>)
    }

    /// How a task stands.
    public struct Status: Sendable {
        /// Nil until it has finished.
        public var result: Result<ImageResponse, Error>?
        /// Whether `cancel` was called: a request, not an outcome. One that had finished before stays as it was.
        public var isCancelled = false
        public var priority: ImageRequest.Priority
        public var progress = Progress(completed: 0, total: 0)
    }

    /// Steers the work behind a task.
    struct Control: Sendable {
        let cancel: @Sendable () -> Void
        let setPriority: @Sendable (ImageRequest.Priority) -> Void
    }

    private struct State {
        var status: Status
        var control: Control?
        var streams: [Int: AsyncStream<Event>.Continuation] = [:]
        var nextStream = 0
        /// Resumed when the observer has been told the end.
        var waiting: [CheckedContinuation<Result<ImageResponse, Error>, Never>] = []
        var isEndTold = false
        /// What the observer has not been told yet, and whether somebody is telling it.
        var untold: [Event] = []
        var isTelling = false

        /// - Returns: whether nobody is telling the observer.
        mutating func note(_ event: Event) -> Bool {
            // News of the same kind take the place of the older ones.
            switch (untold.last, event) {
            case (.progress, .progress), (.preview, .preview): untold.removeLast()
            default: break
            }
            untold.append(event)
            defer { isTelling = true }
            return !isTelling
        }

        mutating func nextUntold() -> Event? {
            if untold.isEmpty {
                isTelling = false
                return nil
            }
            return untold.removeFirst()
        }
    }

    /// Different for all tasks of a pipeline.
    public let id: Int
    public let request: ImageRequest
    let recorder = TaskRecorder()
    private let state: Mutex<State>
    /// Told of each event, in their order: the pipeline's delegate.
    private let observer: (@Sendable (ImageTask, Event) -> Void)?

    /// Progress that nobody has read is forgotten beyond this; the end never is.
    private static let buffer = 64

    init(id: Int, request: ImageRequest, observer: (@Sendable (ImageTask, Event) -> Void)? = nil) {
        self.id = id
        self.request = request
        self.observer = observer
        state = Mutex(State(status: Status(priority: request.priority)))
    }

    // MARK: - State

    public var status: Status { state.withLock { $0.status } }

    /// Which of those who wait goes first. It may be changed at any time.
    public var priority: ImageRequest.Priority {
        get { status.priority }
        set {
            // Under the lock, so that of two changes the later one is what the work hears last.
            state.withLock { state in
                state.status.priority = newValue
                state.control?.setPriority(newValue)
            }
        }
    }

    /// The last that was told.
    public var currentProgress: Progress { status.progress }

    /// Stops it: it ends with `.cancelled`, and what nobody else wants is not done. Any number of times, at any time.
    public func cancel() {
        let control = state.withLock { state -> Control? in
            guard state.status.result == nil else { return nil }
            state.status.isCancelled = true
            return state.control
        }
        control?.cancel()
        finish(.failure(Error(.cancelled, "\(request) was cancelled.")))
    }

    // MARK: - Results

    /// The result; waits for it. If the waiting Swift task is cancelled, so is this one, also for others who wait.
    public var response: ImageResponse {
        get async throws(Error) {
            let result = await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let result = state.withLock { state -> Result<ImageResponse, Error>? in
                        if !state.isEndTold { state.waiting.append(continuation) }
                        return state.isEndTold ? state.status.result : nil
                    }
                    if let result { continuation.resume(returning: result) }
                }
            } onCancel: {
                cancel()
            }
            return try result.get()
        }
    }

    public var image: PlatformImage {
        get async throws(Error) { try await response.image }
    }

    // MARK: - Events

    /// A stream of its own for each who asks. It begins with what is known, and ends with the task.
    public var events: AsyncStream<Event> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Event.self,
            bufferingPolicy: .bufferingNewest(Self.buffer)
        )
        state.withLock { state in
            if state.status.progress.completed > 0 { continuation.yield(.progress(state.status.progress)) }
            if let result = state.status.result {
                continuation.yield(.finished(result))
                continuation.finish()
                return
            }
            let number = state.nextStream
            state.nextStream += 1
            state.streams[number] = continuation
            continuation.onTermination = { [weak self] _ in
                self?.state.withLock { $0.streams[number] = nil }
            }
        }
        return stream
    }

    /// Of the download.
    public var progress: AsyncStream<Progress> {
        stream { if case .progress(let progress) = $0 { progress } else { nil } }
    }

    /// Pictures of what has come so far.
    public var previews: AsyncStream<ImageResponse> {
        stream { if case .preview(let response) = $0 { response } else { nil } }
    }

    private func stream<Value: Sendable>(_ select: @escaping @Sendable (Event) -> Value?) -> AsyncStream<Value> {
        let events = events
        return AsyncStream(bufferingPolicy: .bufferingNewest(Self.buffer)) { continuation in
            // Ends with the events, which end with the task, or with whoever reads.
            let task = Task {
                for await event in events {
                    if let value = select(event) { continuation.yield(value) }
                }
                continuation.finish()
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }

    // MARK: - For the pipeline

    /// Hands over what steers the work. It hears of what has happened meanwhile.
    func attach(_ control: Control) {
        let isOver = state.withLock { state in
            if state.status.result != nil { return true }
            state.control = control
            if state.status.priority != request.priority { control.setPriority(state.status.priority) }
            return false
        }
        if isOver { control.cancel() }
    }

    func start() { tell(.started, streams: false) { _ in } }

    func send(_ progress: Progress) { tell(.progress(progress)) { $0.status.progress = progress } }

    func send(preview: ImageResponse) { tell(.preview(preview)) { _ in } }

    /// The first end counts.
    func finish(_ result: Result<ImageResponse, Error>) {
        recorder.end()
        let ended = state.withLock { state -> (streams: [AsyncStream<Event>.Continuation], mustTell: Bool)? in
            guard state.status.result == nil else { return nil }
            state.status.result = result
            defer {
                state.control = nil
                state.streams = [:]
            }
            return (Array(state.streams.values), state.note(.finished(result)))
        }
        guard let ended else { return }
        // Not under the lock: the end of a stream calls back.
        for stream in ended.streams {
            stream.yield(.finished(result))
            stream.finish()
        }
        if ended.mustTell { tellObserver() }
    }

    private func tell(_ event: Event, streams: Bool = true, _ change: (inout State) -> Void) {
        let mustTell = state.withLock { state in
            guard state.status.result == nil else { return false }
            change(&state)
            if streams { for stream in state.streams.values { stream.yield(event) } }
            return state.note(event)
        }
        if mustTell { tellObserver() }
    }

    /// One event at a time, in their order, whichever threads they come from. What the observer causes itself follows.
    private func tellObserver() {
        while let event = state.withLock({ $0.nextUntold() }) {
            observer?(self, event)
            guard case .finished(let result) = event else { continue }
            let waiting = state.withLock { state in
                state.isEndTold = true
                defer { state.waiting = [] }
                return state.waiting
            }
            for continuation in waiting { continuation.resume(returning: result) }
        }
    }
}

extension ImageTask: CustomStringConvertible {
    /// As in Nuke, for logs.
    public var description: String {
        let status = status
        let state =
            switch status.result {
            case nil: "running"
            case .success: "success"
            case .failure(let error): error.code == .cancelled ? "cancelled" : "failure(\(error))"
            }
        let progress = "\(status.progress.completed) / \(status.progress.total)"
        return "ImageTask(id: \(id), priority: \(status.priority), progress: \(progress), state: \(state))"
    }
}

extension ImageTask: Hashable {
    public static func == (left: ImageTask, right: ImageTask) -> Bool { left === right }

    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
