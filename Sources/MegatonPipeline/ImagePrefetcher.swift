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
        var operations: [ImageLoadKey: TaskQueue.Operation] = [:]
        /// What was started again since it was stopped is another life of the same key.
        var lives: [ImageLoadKey: Int] = [:]
        var lastLife = 0
    }

    private let pipeline: ImagePipeline
    private let destination: Destination
    private let queue: TaskQueue
    private let state = Mutex(State())
    private let didFinish: @Sendable (Outcome) -> Void
    private let didComplete: @Sendable () -> Void

    /// - Parameters:
    ///   - maxConcurrentRequestCount: requests at a time.
    ///   - didFinish: told of each request that was not stopped.
    ///   - didComplete: told each time when nothing is left to do.
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

    /// Of all requests, in the place of their own. A change reaches what has not begun.
    public var priority: ImageRequest.Priority {
        get { state.withLock { $0.priority } }
        set {
            state.withLock { state in
                state.priority = newValue
                for operation in state.operations.values { operation.setPriority(newValue) }
            }
        }
    }

    /// Holds what has not begun; what runs goes on.
    public var isPaused: Bool {
        get { queue.isSuspended }
        set { queue.isSuspended = newValue }
    }

    /// What has not ended.
    public var count: Int { state.withLock { $0.operations.count } }

    // MARK: - Starting and stopping

    public func startPrefetching(with urls: [URL]) { startPrefetching(with: urls.map { ImageRequest(url: $0) }) }

    /// What is in memory already is not started.
    public func startPrefetching(with requests: [ImageRequest]) {
        for request in requests { start(request) }
    }

    private func start(_ request: ImageRequest) {
        let key = ImageLoadKey(request)
        if destination == .memoryCache, pipeline.cachedInMemory(request) != nil { return }
        state.withLock { state in
            guard state.operations[key] == nil else { return }
            state.lastLife += 1
            let life = state.lastLife
            state.lives[key] = life
            var request = request
            request.priority = state.priority
            state.operations[key] = queue.enqueue(priority: state.priority) {
                [weak self, pipeline, destination, request] in
                let result = await Self.load(request, pipeline, destination)
                self?.ended(key, life, (request, result))
            }
        }
    }

    private static func load(
        _ request: ImageRequest,
        _ pipeline: ImagePipeline,
        _ destination: Destination
    ) async -> Result<Void, ImagePipeline.Error> {
        do throws(ImagePipeline.Error) {
            switch destination {
            case .memoryCache: _ = try await pipeline.imageTask(with: request).response
            case .diskCache: try await pipeline.prefetch(request)
            }
            return .success(())
        } catch {
            return .failure(error)
        }
    }

    private func ended(_ key: ImageLoadKey, _ life: Int, _ outcome: Outcome) {
        let (isOurs, isEmpty) = state.withLock { state in
            guard state.lives[key] == life else { return (false, false) }
            state.lives[key] = nil
            state.operations[key] = nil
            return (true, state.operations.isEmpty)
        }
        guard isOurs else { return }
        didFinish(outcome)
        if isEmpty { didComplete() }
    }

    public func stopPrefetching(with urls: [URL]) { stopPrefetching(with: urls.map { ImageRequest(url: $0) }) }

    /// What has not begun never does, and what runs is cancelled, unless somebody else wants it too.
    public func stopPrefetching(with requests: [ImageRequest]) { stop(requests.map(ImageLoadKey.init)) }

    /// Stops everything.
    public func stopPrefetching() { stop(state.withLock { Array($0.operations.keys) }) }

    private func stop(_ keys: [ImageLoadKey]) {
        let (stopped, isEmpty) = state.withLock { state in
            let stopped = keys.compactMap { key -> TaskQueue.Operation? in
                state.lives[key] = nil
                return state.operations.removeValue(forKey: key)
            }
            return (stopped, state.operations.isEmpty)
        }
        for operation in stopped { operation.cancel() }
        if !stopped.isEmpty && isEmpty { didComplete() }
    }
}
