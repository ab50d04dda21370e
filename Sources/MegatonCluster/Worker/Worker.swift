internal import Foundation
public import Logging
internal import MegatonPipeline
internal import MegatonRedis
public import NIOCore
public import NIOPosix
import Synchronization

/// Claims jobs, runs them and settles them until it is asked to stop.
///
/// It runs several jobs at once, most of which wait for an origin; rendering itself is bounded by the pipeline's
/// threads. If a worker dies, its jobs can be claimed by others within the lease and a second.
public final class Worker: Sendable {
    package let configuration: Configuration
    /// Unique name, such as `host:pid:random`.
    public let name: String
    private let queue: JobQueue
    private let leases: RedisClient
    /// Event loop of `leases`, if the worker has made it.
    private let ownGroup: MultiThreadedEventLoopGroup?
    private let wake: RedisClient
    private let lock: InFlightLock?
    private let pipeline: ImagePipeline
    private let limiter: HostRateLimiter
    let files: ThreadPool
    private let claims: ClaimLoop
    private let isolated: SuspectIsolation?
    /// Fallback coordinator, which leads if no coordinator does.
    private let fallback: Coordinator?
    private let heartbeat: LeaseHeartbeat
    private let sweeper: LeaseSweeper
    private let watchdog: RenderWatchdog
    private let running = RunningJobs()
    private let statistics = StatisticsRecorder()
    let starting = ServiceStart()
    /// When the worker stopped claiming; nil while it does.
    private let drainStart = Mutex<ContinuousClock.Instant?>(nil)
    /// The reason for which the worker ended by itself.
    let refusal = Mutex<RedisError?>(nil)
    private let logger: Logger

    private static let fileThreads = 2
    /// The counts that a killed worker takes with it. An idle worker sends none.
    private static let statisticsInterval: Duration = .seconds(1)

    /// - Parameters:
    ///   - name: unique name; `host:pid:random` if nil.
    ///   - group: event loops of the connections.
    ///   - leaseGroup: one event loop that nothing else uses; if nil, the worker makes one and ends it with itself.
    ///   - onHungRender: called when a codec hangs: the process must end, as a thread cannot be stopped from outside.
    /// - Throws: ``ClusterError`` if the configuration is invalid; `ImagePipeline.Error` if libvips cannot be used.
    public init(
        _ configuration: Configuration,
        name: String? = nil,
        group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        leaseGroup: (any EventLoopGroup)? = nil,
        logger: Logger,
        onHungRender: @escaping @Sendable () -> Void
    ) throws {
        try ClusterError.check(configuration.validationError)
        try VipsRuntime.start()
        let name = name ?? ProcessIdentity.process()
        var logger = logger
        logger[metadataKey: LogKey.worker] = "\(name)"
        self.configuration = configuration
        self.name = name
        self.logger = logger
        let control = RedisClient(configuration.control, role: "control", group: group, logger: logger)
        ownGroup = leaseGroup == nil ? MultiThreadedEventLoopGroup(numberOfThreads: 1) : nil
        let leaseLoops = leaseGroup ?? ownGroup ?? group
        leases = RedisClient(configuration.control, role: "lease", group: leaseLoops, logger: logger)
        wake = RedisClient(configuration.control, role: "wake", group: group, logger: logger)
        queue = JobQueue(control, keys: configuration.keys)
        let history = History(file: configuration.history, logger: logger)
        lock = Self.sharedCache(
            configuration,
            owner: name,
            group: group,
            logger: logger,
            statistics: statistics,
            history: history
        )
        limiter = HostRateLimiter(
            redis: control,
            keys: configuration.keys,
            limits: configuration.hostLimits,
            logger: logger,
            statistics: statistics,
            history: history
        )
        pipeline = Self.pipeline(
            configuration,
            flights: lock,
            limiter: limiter,
            statistics: statistics,
            logger: logger
        )
        watchdog = RenderWatchdog(
            longestRender: { [pipeline] in pipeline.longestRunningRender },
            timeLimit: configuration.renderLimits.time,
            logger: logger,
            onHungRender: onHungRender
        )
        sweeper = LeaseSweeper(queue: queue, role: .worker(interval: configuration.sweepInterval), logger: logger)
        files = ThreadPool(name: "megaton-output", count: Self.fileThreads)
        let handler = JobHandler(
            queue: queue,
            completions: CompletionBatcher(queue, worker: name),
            runner: JobRunner(
                pipeline: pipeline,
                credentials: configuration.credentials,
                output: FileOutput(access: configuration.fileAccess, threads: files),
                statistics: statistics,
                failOn: configuration.failOn,
                optionNames: configuration.optionNames,
                isSourceShared: configuration.isSourceShared
            ),
            running: running,
            statistics: statistics,
            retry: configuration.retry,
            maximumStalls: configuration.maximumStalls,
            worker: name,
            history: history,
            optionNames: configuration.optionNames,
            logger: logger,
            places: configuration.concurrency
        )
        isolated = configuration.isolate.map { [queue] start in
            SuspectIsolation(queue: queue, host: ProcessInfo.processInfo.hostName, logger: logger, start: start)
        }
        claims = ClaimLoop(
            configuration,
            queue: queue,
            wake: wake,
            handler: handler,
            running: running,
            isolated: isolated,
            logger: logger
        )
        fallback = configuration.takeoverDelay.map { delay in
            var settings = Coordinator.Configuration()
            settings.keys = configuration.keys
            settings.takeoverDelay = delay
            if configuration.cachePolicy == .storeReused { settings.caches = configuration.caches }
            return Coordinator(settings, redis: configuration.control, group: group, name: name, logger: logger)
        }
        heartbeat = LeaseHeartbeat(
            queue: JobQueue(leases, keys: configuration.keys),
            worker: name,
            info: Self.info(configuration),
            running: running,
            lease: configuration.lease,
            interval: LeaseHeartbeat.interval(configuration.renewInterval, of: configuration.lease),
            statistics: statistics,
            logger: logger
        )
    }

    /// Connects and checks that this Redis may hold jobs.
    ///
    /// - Parameter limit: how long to retry while Redis is unreachable or still loading; zero makes one attempt.
    /// - Throws: `RedisError` with the reason of the last attempt, or if this Redis may evict jobs, or is used by a
    ///   version with which this one cannot work.
    package func start(waitingForRedis limit: Duration = .zero) async throws {
        try await EvictionPolicyCheck.connect(queue.redis, waiting: limit, logger: logger)
        try await protocolCheck.start()
        if lock != nil, configuration.caches.contains(configuration.control) {
            await EvictionPolicyCheck.warnIfCacheFillsQueue(queue.redis, logger: logger)
        }
        starting.finish()
    }

    /// Whether the last renewal of leases succeeded and is more recent than one lease, so that jobs claimed now can be
    /// kept. A single failed renewal makes this false until the next one succeeds.
    public var isReady: Bool {
        running.renewed.map { $0.duration(to: .now) < configuration.lease } ?? false
    }

    private var protocolCheck: ProtocolCheck { ProtocolCheck(queue: queue, logger: logger) }

    /// Works until the signal, then drains: jobs that do not finish within the drain timeout are released.
    ///
    /// If the queue changes to a protocol that this worker does not speak, it raises the signal to `.drain` itself, and
    /// `refusal` has the reason.
    package func run(until signal: ShutdownSignal) async {
        logger.info("worker started", metadata: [LogKey.queue: "\(configuration.keys.queue)"])
        await reportPredecessors()
        await heartbeat.renew()
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.heartbeat.run() }
            group.addTask { await self.sweeper.run() }
            group.addTask { await self.watchdog.run() }
            group.addTask { await self.flushStatistics() }
            if let lock { group.addTask { await lock.run() } }
            group.addTask { await self.limiter.run() }
            group.addTask {
                guard let error = await self.protocolCheck.run(reportsFormer: false) else { return }
                self.refusal.withLock { $0 = error }
                signal.raise(to: .drain)
            }
            if let isolated {
                group.addTask {
                    await withTaskGroup(of: Void.self) { process in
                        process.addTask { await isolated.run { self.running.changed.signal() } }
                        process.addTask { await signal.wait(for: .drain) }
                        await process.next()
                        process.cancelAll()
                    }
                }
            }
            if let fallback { group.addTask { await fallback.runUntilCancelled() } }
            group.addTask {
                await signal.wait(for: .drain)
                self.drainStart.withLock { $0 = .now }
                // A worker that shuts down does not wait for an unreachable Redis: leases run out by themselves, and
                // settlements are retried.
                self.queue.redis.failFast()
                self.leases.failFast()
            }
            await claims.run(until: signal)
            // The lock still renews the flights of these uploads.
            let drained = drainStart.withLock { $0 }?.duration(to: .now) ?? .zero
            await finishUploads(within: max(.zero, configuration.drainTimeout - drained), unless: signal)
            group.cancelAll()
        }
        await signOff()
        logger.info("worker stopped")
    }

    /// Waits for originals that are being stored in the shared cache after their jobs have ended, until the second
    /// signal.
    private func finishUploads(within limit: Duration, unless signal: ShutdownSignal) async {
        let left = await withTaskGroup(of: Int?.self) { group in
            group.addTask { await self.pipeline.finishUploads(within: limit) }
            group.addTask {
                await signal.wait(for: .abort)
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            var left = first
            for await count in group { left = left ?? count }
            return left ?? 0
        }
        if left > 0 {
            logger.notice(
                "originals were not stored in the cache: the drain timeout is over",
                metadata: [LogKey.count: "\(left)"]
            )
        }
        await lock?.abandonLeads()
    }

    // MARK: - Background tasks

    private func reportPredecessors() async {
        guard let space = ProcessSpace.current else { return }
        do {
            let dead = try await queue.reportDead(in: space, isGone: ProcessSpace.isGone)
            if dead > 0 {
                logger.warning(
                    "earlier workers died on this machine; their jobs are ready again",
                    metadata: [LogKey.count: "\(dead)"]
                )
            }
        } catch {
            // Their leases run out by themselves.
            logger.debug(
                "cannot report dead workers of this machine; their leases will expire",
                metadata: [LogKey.error: "\(error)"]
            )
        }
    }

    private func flushStatistics() async {
        await every(Self.statisticsInterval, startsAtOnce: false, endsWithRound: true) {
            do {
                try await statistics.flush(to: queue)
            } catch {
                logger.debug(
                    "cannot add statistics; they are kept for the next attempt",
                    metadata: [LogKey.error: "\(error)"]
                )
            }
        }
    }

    private func signOff() async {
        // Concurrently: if both hang, they take no longer than one.
        async let isCounted: Void = addLastStatistics()
        do {
            try await queue.release([], worker: name, leaves: true)
        } catch {
            logger.warning("the worker could not sign off; its entry expires", metadata: [LogKey.error: "\(error)"])
        }
        await isCounted
        await close()
    }

    /// Closes the connections and ends the threads. Safe to repeat.
    func close() async {
        queue.redis.close()
        leases.close()
        wake.close()
        lock?.cache.close()
        files.stop()
        do {
            try await ownGroup?.shutdownGracefully()
        } catch {
            logger.warning("an event loop did not end", metadata: [LogKey.error: "\(error)"])
        }
    }

    private func addLastStatistics() async {
        do {
            try await statistics.flush(to: queue)
        } catch {
            logger.warning("the last statistics could not be added and are lost", metadata: [LogKey.error: "\(error)"])
        }
    }
}
