public import Foundation
import Synchronization

/// Loads images before somebody asks for them: Nuke's prefetcher, which also tells how each of them went.
///
/// Starting the same request twice is starting it once, and one stop ends it. Everything ends with the prefetcher.
public final class ImagePrefetcher: Sendable {
    /// Where the images go.
    public enum Destination: Sendable {
        /// Decoded and processed, into memory.
        case memoryCache
        /// Bytes only, into the data caches: nothing is decoded.
        case diskCache
    }

    /// How one request went.
    public typealias Outcome = (request: ImageRequest, result: Result<Void, ImagePipeline.Error>)

    private struct State {
        var priority = ImageRequest.Priority.low
        var items: [ImageLoadKey: Item] = [:]
        var lastLife = 0
    }

    private struct Item {
        /// What was started again since it was stopped is another life of the same key.
        let life: Int
        let operation: TaskQueue.Operation
        /// Once it has begun.
        var task: ImageTask?
    }

    private let pipeline: ImagePipeline
    private let destination: Destination
    private let queue: TaskQueue
    private let state = Mutex(State())
    private let didFinish: @Sendable (Outcome) -> Void
    private let didComplete: @Sendable () -> Void

    /// - Parameters:
    ///   - maxConcurrentRequestCount: requests at a time.
    ///   - didFinish: told of each request that was not stopped; at once of one that is in memory already.
    ///   - didComplete: told each time when nothing is left to do: by `startPrefetching` itself where nothing has to be
    ///     done, and by a stop that leaves nothing. On any thread; Nuke tells it on the main one.
    public init(
        pipeline: ImagePipeline,
        destination: Destination = .memoryCache,
        maxConcurrentRequestCount: Int = 2,
        didFinish: @escaping @Sendable (Outcome) -> Void = { _ in },
        didComplete: @escaping @Sendable () -> Void = {}
    ) {
        self.pipeline = pipeline
        self.destination = destination
        self.didFinish = didFinish
        self.didComplete = didComplete
        queue = TaskQueue(maxConcurrentOperationCount: max(1, maxConcurrentRequestCount))
    }

    deinit { stopPrefetching() }

    // MARK: - Steering

    /// Of all requests, in the place of their own. A change reaches what has not begun, and images under way.
    public var priority: ImageRequest.Priority {
        get { state.withLock { $0.priority } }
        set {
            state.withLock { state in
                state.priority = newValue
                for item in state.items.values {
                    item.operation.setPriority(newValue)
                    item.task?.priority = newValue
                }
            }
        }
    }

    /// Holds what has not begun; what runs goes on.
    public var isPaused: Bool {
        get { queue.isSuspended }
        set { queue.isSuspended = newValue }
    }

    /// What has not ended.
    public var count: Int { state.withLock { $0.items.count } }

    // MARK: - Starting and stopping

    public func startPrefetching(with urls: [URL]) { startPrefetching(with: urls.map { ImageRequest(url: $0) }) }

    /// What is in memory already is not started.
    public func startPrefetching(with requests: [ImageRequest]) {
        // Files are not looked at here: whether they are in memory turns out when they are loaded. A preview is not what was
        // asked for.
        let isInMemory = requests.map {
            destination == .memoryCache && !$0.isFile && pipeline.answerInMemory($0)?.isPreview == false
        }
        // All at once: it is not complete before the last of them.
        let isIdle = state.withLock { state in
            var hasStarted = false
            for (request, isInMemory) in zip(requests, isInMemory) where !isInMemory {
                if start(request, &state) { hasStarted = true }
            }
            return !hasStarted && state.items.isEmpty
        }
        for (request, isInMemory) in zip(requests, isInMemory) where isInMemory { didFinish((request, .success(()))) }
        if isIdle { didComplete() }
    }

    private func start(_ request: ImageRequest, _ state: inout State) -> Bool {
        let key = ImageLoadKey(request)
        guard state.items[key] == nil else { return false }
        state.lastLife += 1
        let life = state.lastLife
        // Weak: what is under way ends with the prefetcher.
        let operation = queue.enqueue(priority: state.priority) { [weak self, pipeline, destination] in
            guard let priority = self?.priority else { return }
            var request = request
            request.priority = priority
            let result: Result<Void, ImagePipeline.Error>
            do throws(ImagePipeline.Error) {
                switch destination {
                case .memoryCache:
                    let task = pipeline.imageTask(with: request)
                    self?.begun(key, life, task)
                    _ = try await task.response
                case .diskCache: try await pipeline.prefetch(request)
                }
                result = .success(())
            } catch {
                result = .failure(error)
            }
            self?.ended(key, life, (request, result))
        }
        state.items[key] = Item(life: life, operation: operation)
        return true
    }

    private func begun(_ key: ImageLoadKey, _ life: Int, _ task: ImageTask) {
        state.withLock { state in
            guard state.items[key]?.life == life else { return }
            state.items[key]?.task = task
            if task.priority != state.priority { task.priority = state.priority }
        }
    }

    private func ended(_ key: ImageLoadKey, _ life: Int, _ outcome: Outcome) {
        let (isOurs, isEmpty) = state.withLock { state in
            guard state.items[key]?.life == life else { return (false, false) }
            state.items[key] = nil
            return (true, state.items.isEmpty)
        }
        guard isOurs else { return }
        didFinish(outcome)
        if isEmpty { didComplete() }
    }

    public func stopPrefetching(with urls: [URL]) { stopPrefetching(with: urls.map { ImageRequest(url: $0) }) }

    /// What has not begun never does, and what runs is cancelled, unless somebody else wants it too.
    public func stopPrefetching(with requests: [ImageRequest]) { stop(requests.map(ImageLoadKey.init)) }

    /// Stops everything.
    public func stopPrefetching() { stop(state.withLock { Array($0.items.keys) }) }

    private func stop(_ keys: [ImageLoadKey]) {
        let (stopped, isEmpty) = state.withLock { state in
            let stopped = keys.compactMap { state.items.removeValue(forKey: $0)?.operation }
            return (stopped, state.items.isEmpty)
        }
        for operation in stopped { operation.cancel() }
        if !stopped.isEmpty && isEmpty { didComplete() }
    }
}
