import Synchronization

/// A running request: Nuke's task, with the API of Nuke 14.
///
/// It runs from its creation, whether or not a caller waits. Each event stream begins with the current state, so that a
/// late subscriber receives the progress and the result (in Nuke 13 it received nothing).
public final class ImageTask: Sendable, Identifiable {
    /// The error of a request.
    public typealias Error = ImageError

    /// Bytes of a download.
    public struct Progress: Sendable, Hashable {
        /// Number of bytes that have arrived.
        public let completed: Int64
        /// 0 if the origin does not announce it.
        public let total: Int64

        /// Creates a progress.
        public init(completed: Int64, total: Int64) {
            self.completed = completed
            self.total = total
        }

        /// 0 to 1; 0 if the total is unknown.
        public var fraction: Float { total > 0 ? min(1, Float(completed) / Float(total)) : 0 }
    }

    /// An event of a task, in this order: `started`, any progress and previews, `finished`.
    public enum Event: Sendable {
        /// For the delegate only: as in Nuke, event streams do not contain it.
        case started
        case progress(Progress)
        /// An image of the bytes received so far.
        case preview(ImageResponse)
        /// Sent once, as the last event.
        case finished(Result<ImageResponse, Error>)
    }

    /// The state of a task.
    public struct Status: Sendable {
        /// Nil until the task has finished.
        public var result: Result<ImageResponse, Error>?
        /// Whether `cancel` was called before the task had finished. It is a request, not an outcome.
        public var isCancelled = false
        /// The priority of the task.
        public var priority: ImageRequest.Priority
        /// The progress of the download.
        public var progress = Progress(completed: 0, total: 0)
    }

    /// Controls the work behind a task.
    struct Control: Sendable {
        let cancel: @Sendable () -> Void
        let setPriority: @Sendable (ImageRequest.Priority) -> Void
    }

    private struct State {
        var status: Status
        var control: Control?
        var streams: [Int: AsyncStream<Event>.Continuation] = [:]
        var nextStream = 0
        /// Resumed when the observer has received the last event.
        var waiting: [CheckedContinuation<Result<ImageResponse, Error>, Never>] = []
        var isEndDelivered = false
        /// Events that the observer has not received yet, and whether a thread is delivering them.
        var undelivered: [Event] = []
        var isDelivering = false

        /// - Returns: whether no thread is delivering, so that the caller must.
        mutating func note(_ event: Event) -> Bool {
            // New progress replaces undelivered progress, and a new preview an undelivered preview.
            switch (undelivered.last, event) {
            case (.progress, .progress), (.preview, .preview): undelivered.removeLast()
            default: break
            }
            undelivered.append(event)
            defer { isDelivering = true }
            return !isDelivering
        }

        mutating func nextUndelivered() -> Event? {
            if undelivered.isEmpty {
                isDelivering = false
                return nil
            }
            return undelivered.removeFirst()
        }
    }

    /// Unique among the tasks of a pipeline.
    public let id: Int
    /// The request of the task.
    public let request: ImageRequest
    let recorder = TaskRecorder()
    private let state: Mutex<State>
    /// Called with each event, in order, for the pipeline's delegate.
    private let observer: (@Sendable (ImageTask, Event) -> Void)?

    /// Buffer size of an event stream: older unread events are dropped beyond it, the last one never.
    private static let buffer = 64

    init(id: Int, request: ImageRequest, observer: (@Sendable (ImageTask, Event) -> Void)? = nil) {
        self.id = id
        self.request = request
        self.observer = observer
        state = Mutex(State(status: Status(priority: request.priority)))
    }

    // MARK: - State

    /// A snapshot of the task.
    public var status: Status { state.withLock { $0.status } }

    /// Order in which waiting work starts. It may be changed at any time.
    public var priority: ImageRequest.Priority {
        get { status.priority }
        set {
            // Under the lock, so that of two changes the later one also reaches the work last.
            state.withLock { state in
                state.status.priority = newValue
                state.control?.setPriority(newValue)
            }
        }
    }

    /// The latest progress.
    public var currentProgress: Progress { status.progress }

    /// Cancels the task: it ends with `.cancelled`, and work that no other task shares is stopped. May be called
    /// repeatedly and at any time.
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

    /// The result; waits for it. If the waiting Swift task is cancelled, so is this image task, also for other waiters.
    public var response: ImageResponse {
        get async throws(Error) {
            let result = await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let result = state.withLock { state -> Result<ImageResponse, Error>? in
                        if !state.isEndDelivered { state.waiting.append(continuation) }
                        return state.isEndDelivered ? state.status.result : nil
                    }
                    if let result { continuation.resume(returning: result) }
                }
            } onCancel: {
                cancel()
            }
            return try result.get()
        }
    }

    /// The image of the response.
    public var image: PlatformImage {
        get async throws(Error) { try await response.image }
    }

    // MARK: - Events

    /// A new stream for each access. It begins with the current state and ends with the task.
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

    /// Progress of the download.
    public var progress: AsyncStream<Progress> {
        stream { if case .progress(let progress) = $0 { progress } else { nil } }
    }

    /// Images of the bytes received so far.
    public var previews: AsyncStream<ImageResponse> {
        stream { if case .preview(let response) = $0 { response } else { nil } }
    }

    private func stream<Value: Sendable>(_ select: @escaping @Sendable (Event) -> Value?) -> AsyncStream<Value> {
        let events = events
        return AsyncStream(bufferingPolicy: .bufferingNewest(Self.buffer)) { continuation in
            // Ends with the event stream, which ends with the task, or when the reader stops.
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

    /// Attaches the control of the work, and applies a priority change or cancellation that has happened meanwhile.
    func attach(_ control: Control) {
        let isOver = state.withLock { state in
            if state.status.result != nil { return true }
            state.control = control
            if state.status.priority != request.priority { control.setPriority(state.status.priority) }
            return false
        }
        if isOver { control.cancel() }
    }

    func start() { emit(.started, streams: false) { _ in } }

    func send(_ progress: Progress) { emit(.progress(progress)) { $0.status.progress = progress } }

    func send(preview: ImageResponse) { emit(.preview(preview)) { _ in } }

    /// Ends the task; only the first call counts.
    func finish(_ result: Result<ImageResponse, Error>) {
        recorder.end()
        let ended = state.withLock { state -> (streams: [AsyncStream<Event>.Continuation], mustDeliver: Bool)? in
            guard state.status.result == nil else { return nil }
            state.status.result = result
            defer {
                state.control = nil
                state.streams = [:]
            }
            return (Array(state.streams.values), state.note(.finished(result)))
        }
        guard let ended else { return }
        // Not under the lock, because ending a stream calls `onTermination`.
        for stream in ended.streams {
            stream.yield(.finished(result))
            stream.finish()
        }
        if ended.mustDeliver { notifyObserver() }
    }

    private func emit(_ event: Event, streams: Bool = true, _ change: (inout State) -> Void) {
        let mustDeliver = state.withLock { state in
            guard state.status.result == nil else { return false }
            change(&state)
            if streams { for stream in state.streams.values { stream.yield(event) } }
            return state.note(event)
        }
        if mustDeliver { notifyObserver() }
    }

    /// Delivers one event at a time, in order, whichever thread it comes from. Events that the observer itself causes
    /// follow.
    private func notifyObserver() {
        while let event = state.withLock({ $0.nextUndelivered() }) {
            observer?(self, event)
            guard case .finished(let result) = event else { continue }
            let waiting = state.withLock { state in
                state.isEndDelivered = true
                defer { state.waiting = [] }
                return state.waiting
            }
            for continuation in waiting { continuation.resume(returning: result) }
        }
    }
}

extension ImageTask: CustomStringConvertible {
    /// A description for logs, as in Nuke.
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
