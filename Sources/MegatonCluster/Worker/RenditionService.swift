package import Foundation
package import Logging
package import MegatonPipeline
internal import MegatonRedis
internal import NIOCore
internal import NIOPosix
import Synchronization

/// Makes renditions for requests that wait for them, as a worker does for jobs: with the same pipeline, shared cache,
/// single flight and limits of hosts. It claims no jobs.
///
/// It can also let the workers of the queue make what the cache does not have (`asksWorkers`): see `RenditionJobs`.
/// It then makes a rendition itself only if the workers have made it and the cache has not kept it.
package final class RenditionService: Sendable {
    private let configuration: Worker.Configuration
    private let group: any EventLoopGroup
    private let lock: InFlightLock?
    private let pipeline: ImagePipeline
    /// Shard 0 of the queue.
    private let first: JobQueue
    private let limiter: HostRateLimiter
    private let limiters: HostLimiters
    private let watchdog: RenderWatchdog
    private let onHungRender: @Sendable () -> Void
    /// Nil if this process renders.
    private let jobs: RenditionJobs?
    private let statistics = StatisticsRecorder()
    private let counters = PipelineCounters()
    private let memory = MemoryGauges()
    private let connected = Mutex(false)
    /// Whether the log has that workers have other keys.
    private let reportedKeys = Mutex(false)
    private let logger: Logger

    /// How long a request waits for the turn of its host. Clients of a thumbnail wait no longer.
    static let patience: Duration = .seconds(5)
    /// Shortest pause before a host is asked again.
    private static let shortestPause: Duration = .milliseconds(50)
    private static let statisticsInterval: Duration = .seconds(1)
    /// Pause before the queue is connected again.
    private static let retryInterval: Duration = .seconds(1)
    /// After a render has hung: time for the answer to its request.
    private static let answerTime: Duration = .seconds(1)

    /// Nothing is sent yet: a server starts also while Redis is away.
    ///
    /// - Parameters:
    ///   - configuration: that of a worker, of which the parts about jobs and outputs have no effect. With
    ///     `asksWorkers`, the options that are part of a rendition's key must be those of the workers.
    ///   - asksWorkers: whether the workers of the queue make what the cache does not have.
    ///   - onHungRender: called after a codec has hung and its request was answered: the process must end, as a thread
    ///     cannot be stopped from outside.
    /// - Throws: ``ClusterError`` if the configuration is invalid; `ImagePipeline.Error` if libvips cannot be used.
    package init(
        _ configuration: Worker.Configuration,
        asksWorkers: Bool = false,
        logger: Logger,
        onHungRender: @escaping @Sendable () -> Void
    ) throws {
        try ClusterError.check(configuration.validationError)
        if asksWorkers && configuration.caches.isEmpty {
            throw ClusterError(.invalidConfiguration, "Images of workers need a shared cache to be read from.")
        }
        try VipsRuntime.start()
        let group = MultiThreadedEventLoopGroup.singleton
        let history = History(file: nil, logger: logger)
        self.configuration = configuration
        self.group = group
        self.logger = logger
        lock = Worker.sharedCache(
            configuration,
            owner: ProcessIdentity.process(),
            group: group,
            logger: logger,
            statistics: statistics,
            history: history
        )
        first = configuration.address.shard(0, role: "images", group: group, logger: logger)
        limiter = Worker.limiter(configuration, first, statistics: statistics, history: history, logger: logger)
        limiters = HostLimiters(limiter)
        jobs = asksWorkers ? RenditionJobs(first, logger: logger) : nil
        pipeline = Worker.pipeline(
            configuration,
            flights: lock,
            limiter: limiters,
            statistics: statistics,
            // Workers decide by their own options which sources they fetch into the cache.
            checksAddresses: !asksWorkers,
            logger: logger
        )
        watchdog = RenderWatchdog(pipeline: pipeline, timeLimit: configuration.renderLimits.time, logger: logger)
        self.onHungRender = onHungRender
    }

    /// Whether the queue has been connected, so that the limits of hosts are known. Later outages do not change this:
    /// renditions are then made without the cache and the limits, as workers make them.
    package var isConnected: Bool { connected.withLock { $0 } }

    /// Sets the metrics that describe the state now; called before they are read.
    package func updateGauges() { memory.set(configuration.memory) }

    /// The rendition of a source, from the cache or newly made.
    ///
    /// - Throws: `.failed` with the code `.throttled` if the host of the source takes no request within ``patience``.
    package func rendition(
        _ rendition: Rendition,
        of url: URL
    ) async throws(RenditionError) -> RenditionResponse {
        var rendition = rendition
        rendition.failOn = rendition.failOn ?? configuration.failOn
        let metrics = PipelineMetrics(spans: SpanSource(tracer: configuration.tracer).current())
        defer {
            statistics.add(metrics.counts, of: url)
            counters.count(metrics.counts)
        }
        if let jobs, RenditionJob.isPossible(for: url),
            let response = try await workersResponse(rendition, of: url, metrics, jobs)
        {
            return response
        }
        do throws(ImagePipeline.Error) {
            let responses = try await responses(rendition, of: url, metrics)
            if let response = responses.first { return response }
        } catch {
            throw RenditionError.failed(named(error))
        }
        throw RenditionError.failed(
            ImagePipeline.Error(.renderFailed, "The pipeline returned no rendition of \(url.redacted).")
        )
    }

    /// An error with the program's words for the library's settings.
    private func named(_ error: ImagePipeline.Error) -> ImagePipeline.Error {
        var error = error
        error.message = JobRunner.naming(configuration.optionNames, in: error.message)
        return error
    }

    // MARK: - Renditions of workers

    /// The rendition from the cache, into which a worker puts it if it is not there.
    ///
    /// - Returns: nil if a worker has made it and the cache has not kept it: the origin forbids that, or the cache is
    ///   full.
    private func workersResponse(
        _ rendition: Rendition,
        of url: URL,
        _ metrics: PipelineMetrics,
        _ jobs: RenditionJobs
    ) async throws(RenditionError) -> RenditionResponse? {
        let present = try await cached(rendition, of: url)
        if let present, present.isFresh { return present.response(metrics) }
        let job = RenditionJob(rendition, of: url, replacing: present?.version)
        if let present, present.mayServeWhileRevalidating {
            jobs.request(job)
            return present.response(metrics)
        }
        let outcome: JobOutcome?
        do throws(RenditionError) {
            outcome = try await jobs.outcome(of: job)
        } catch {
            guard error.isOfWorkers else { throw error }
            // An outcome that was forgotten is not seen, and the rendition is there all the same.
            let late = try await cached(rendition, of: url)
            // A worker that can run serves an entry in the same way if the origin does not answer it.
            if let late, late.isFresh || late.mayServeOnFailure { return late.response(metrics) }
            throw error
        }
        let made = try await cached(rendition, of: url)
        // A worker may answer with a stale entry, for example while the origin is away. Any other one is older than the
        // job.
        if let made, made.isFresh || made.response.checksum == outcome?.outputs.first?.sha256 {
            return made.response(metrics)
        }
        let key = CacheKey.original(of: ImageRequest(url: url)).rendition(rendition, by: configuration.renderEngine)
        noteNotKept(url, expected: key, made: outcome?.outputs.first?.cacheKey)
        return nil
    }

    private func noteNotKept(_ url: URL, expected: CacheKey, made digest: String?) {
        if let digest, digest != expected.digest {
            let isNews = reportedKeys.withLock { isReported in
                defer { isReported = true }
                return !isReported
            }
            if !isNews { return }
            return logger.warning(
                """
                workers make images under other keys of the cache than this process reads, so that it makes all of \
                them itself: give the workers the default of --engine
                """,
                metadata: [LogKey.source: "\(url.redacted)"]
            )
        }
        logger.debug(
            "a worker has made an image that the cache has not kept; it is made again here",
            metadata: [LogKey.source: "\(url.redacted)"]
        )
    }

    private func cached(_ rendition: Rendition, of url: URL) async throws(RenditionError) -> CachedRendition? {
        do throws(ImagePipeline.Error) {
            return try await pipeline.cachedRendition(rendition, for: ImageRequest(url: url))
        } catch {
            throw RenditionError.failed(named(error))
        }
    }

    // MARK: - Renditions of this process

    /// The response of the pipeline, which is asked again while the host of the source takes no request.
    private func responses(
        _ rendition: Rendition,
        of url: URL,
        _ metrics: PipelineMetrics
    ) async throws(ImagePipeline.Error) -> [RenditionResponse] {
        let end = ContinuousClock.now + Self.patience
        return try await retrying(
            cancellation: ImagePipeline.Error(.cancelled, "The request for \(url.redacted) was cancelled.")
        ) { () async throws(ImagePipeline.Error) -> [RenditionResponse] in
            try await pipeline.renditions([rendition], for: ImageRequest(url: url), metrics: metrics)
        } pauseAfter: { (error: ImagePipeline.Error) -> Duration? in
            guard error.code == .throttled else { return nil }
            let pause = max(Self.shortestPause, .seconds(error.hostTurn?.wait ?? error.retryAfter ?? 1))
            return ContinuousClock.now + pause < end ? pause : nil
        }
    }

    // MARK: - Background tasks

    /// Keeps flights and permits, and follows changes of the queue's shards, until the task is cancelled. The
    /// connections are closed then.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.followShards() }
            group.addTask { await self.limiter.run() }
            group.addTask { await self.endIfRenderHangs() }
            group.addTask { await self.flushStatistics() }
            if let lock { group.addTask { await lock.run() } }
            if let jobs { group.addTask { await jobs.run() } }
        }
        first.close()
        lock?.cache.close()
    }

    private func endIfRenderHangs() async {
        guard await watchdog.run() else { return }
        do { try await Task.sleep(for: Self.answerTime) } catch { return }  // The server ends already.
        onHungRender()
    }

    /// Waits for entries that are being stored or revalidated although their requests were answered; called before
    /// ``run()`` is cancelled.
    package func finish(within limit: Duration) async {
        // A server that shuts down does not wait for an unreachable Redis.
        first.redis.failFast()
        let left = await pipeline.finishBackgroundWork(within: limit)
        if left > 0 {
            logger.notice("entries were not stored in the cache", metadata: [LogKey.count: "\(left)"])
        }
        await lock?.abandonLeads()
    }

    /// Uses the limits of hosts on all shards of the queue, also after their number has changed.
    private func followShards() async {
        var isReported = false
        await repeating {
            do throws(RedisError) {
                try await first.redis.connect()
                let queue = try await ShardedQueue.open(
                    first,
                    configuration.address,
                    role: "images",
                    toleratesAbsence: true,
                    group: group,
                    logger: logger
                )
                isReported = false
                await use(queue)
            } catch {
                // Until the first connection the server reports that it waits, and makes no images.
                let isLoss = isConnected && !isReported && !Task.isCancelled
                isReported = isReported || isLoss
                logger.log(
                    level: isLoss ? .warning : .debug,
                    "the shards of the queue cannot be read; limits of hosts may be off for images",
                    metadata: [LogKey.error: "\(error)"]
                )
            }
            return Self.retryInterval
        }
    }

    /// Uses the shards until their number changes, or the task is cancelled.
    private func use(_ queue: ShardedQueue) async {
        let others = queue.shards.dropFirst()
        defer { for shard in others { shard.close() } }
        let history = History(file: nil, logger: logger)
        let further = others.map { shard in
            Worker.limiter(configuration, shard, statistics: statistics, history: history, logger: logger)
        }
        limiters.use(further)
        let isFirst = connected.withLock { isConnected in
            defer { isConnected = true }
            return !isConnected
        }
        if isFirst && lock != nil {
            await CacheGrowth.warnIfRisky(queue.shards.servers, caches: configuration.caches, logger: logger)
        }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.watch(queue) }
            for limiter in further { group.addTask { await limiter.run() } }
            // The others end with their cancellation only.
            await group.next()
            group.cancelAll()
        }
    }

    private func watch(_ queue: ShardedQueue) async {
        let interval = ShardCheck.interval(of: queue.layout)
        await repeating(after: interval) {
            do throws(RedisError) {
                try await queue.checkLayout(onlyFirst: true)
            } catch {
                if error.code == .shardMismatch {
                    logger.notice("the shards of the queue have changed; its limits of hosts are read again")
                    return nil
                }
                logger.debug("cannot check the shards of the queue", metadata: [LogKey.error: "\(error)"])
            }
            return interval
        }
    }

    private func flushStatistics() async {
        await every(Self.statisticsInterval, startsAtOnce: false, endsWithRound: true) {
            do {
                try await statistics.flush(to: first)
            } catch {
                logger.debug(
                    "cannot add statistics; they are kept for the next attempt",
                    metadata: [LogKey.error: "\(error)"]
                )
            }
        }
    }
}

/// Why a request got no rendition.
package enum RenditionError: Error, Sendable {
    /// The fetch or the render has failed, in this process or in a worker, or a rule forbids it.
    case failed(ImagePipeline.Error)
    /// The workers cannot be asked now; a sentence for clients.
    case unavailable(String)
    /// The workers have not ended the job in time.
    case overdue

    /// Whether nothing is known about the image, as no worker has ended its job.
    fileprivate var isOfWorkers: Bool {
        switch self {
        case .failed: false
        case .unavailable, .overdue: true
        }
    }
}

extension CachedRendition {
    /// The response, which is counted as a hit.
    fileprivate func response(_ metrics: PipelineMetrics) -> RenditionResponse {
        addHit(to: metrics)
        return response
    }
}
