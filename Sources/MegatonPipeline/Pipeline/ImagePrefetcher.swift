public import Foundation
import Synchronization

/// Loads images before they are requested: Nuke's prefetcher, which also reports the result of each.
///
/// Starting a request again while it is active has no effect, and one stop ends it. All requests end with the
/// prefetcher.
public final class ImagePrefetcher: Sendable {
    /// The cache that prefetching fills.
    public enum Destination: Sendable {
        /// Decoded and processed images, into the memory cache.
        case memoryCache
        /// Bytes only, into the data caches, without decoding.
        case diskCache
    }

    /// The result of one request.
    public typealias Outcome = (request: ImageRequest, result: Result<Void, ImageError>)

    private struct State {
        var priority = ImageRequest.Priority.low
        var items: [ImageLoadKey: Item] = [:]
        var lastLife = 0
    }

    private struct Item {
        /// Distinguishes requests for the same key: one that was stopped and started again has another life.
        let life: Int
        let operation: TaskQueue.Operation
        /// The image task, once it has started.
        var task: ImageTask?
    }

    private let pipeline: ImagePipeline
    private let destination: Destination
    private let queue: TaskQueue
    private let state = Mutex(State())
    private let didFinish: @Sendable (Outcome) -> Void
    private let didComplete: @Sendable () -> Void

    /// - Parameters:
    ///   - maxConcurrentRequestCount: maximum number of concurrent requests.
    ///   - didFinish: called for each request that was not stopped; immediately if its image is already in memory.
    ///   - didComplete: called whenever no request is left: by `startPrefetching` itself if there is nothing to load,
    ///     and by a stop that ends the last request. Called on any thread, while Nuke uses the main one.
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

    // MARK: - Controls

    /// Priority of all requests, which replaces their own. A change affects waiting requests and running image tasks.
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

    /// Whether waiting requests are held back; running ones continue.
    public var isPaused: Bool {
        get { queue.isSuspended }
        set { queue.isSuspended = newValue }
    }

    /// Number of unfinished requests.
    public var count: Int { state.withLock { $0.items.count } }

    // MARK: - Starting and stopping

    /// Starts prefetching URLs.
    public func startPrefetching(with urls: [URL]) { startPrefetching(with: urls.map { ImageRequest(url: $0) }) }

    /// Starts prefetching, except for images that are already in memory.
    public func startPrefetching(with requests: [ImageRequest]) {
        // Files are not checked here; whether they are in memory is found out when they are loaded. A preview does not
        // count, because the full image was requested.
        let isInMemory = requests.map {
            destination == .memoryCache && !$0.isFile && pipeline.answerInMemory($0)?.isPreview == false
        }
        // Start all under one lock, so that `didComplete` is not called before the last has started.
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
        // Weak because running requests end with the prefetcher.
        let operation = queue.enqueue(priority: state.priority) { [weak self, pipeline, destination] in
            guard let priority = self?.priority else { return }
            var request = request
            request.priority = priority
            let result: Result<Void, ImageError>
            do throws(ImageError) {
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

    /// Stops prefetching URLs.
    public func stopPrefetching(with urls: [URL]) { stopPrefetching(with: urls.map { ImageRequest(url: $0) }) }

    /// Removes waiting requests and cancels running ones. Work that other requests share continues.
    public func stopPrefetching(with requests: [ImageRequest]) { stop(requests.map(ImageLoadKey.init)) }

    /// Stops all requests.
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
