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
    /// Event loop of the heartbeats, if the worker has made it.
    private let ownGroup: MultiThreadedEventLoopGroup?
    /// The event loop of the connections to the control Redis. Their tasks run on it too, see ``EventLoopExecutor``.
    private let loop: any EventLoop
    private let lock: InFlightLock?
    /// The shared cache, if the worker neither reads nor writes it: only outdated entries are deleted from it.
    private let bypassedCache: InFlightLock?
    private let pipeline: ImagePipeline
    private let limiters: HostLimiters
    let files: ThreadPool
    private let isolated: SuspectIsolation?
    private let watchdog: RenderWatchdog
    private let onHungRender: @Sendable () -> Void
    private let parts: WorkerShard.Parts
    /// The shards of the queue: only the first one until the worker has started.
    private let shards: ShardList
    private let statistics = StatisticsRecorder()
    private let gauges = WorkerGauges()
    let starting = ServiceStart()
    /// When the worker stopped claiming; nil while it does.
    private let drainStart = Mutex<ContinuousClock.Instant?>(nil)
    /// The reason for which the worker ended by itself.
    let refusal = Mutex<RedisError?>(nil)
    /// Whether the process has to end as soon as the worker has.
    private let hasHungRender = Atomic(false)
    private let hasEndedProcess = Atomic(false)
    private let logger: Logger

    private static let fileThreads = 2
    /// After a render has hung: time for the settlement of its job, and then twice for the end of the others.
    private static let settlementTime: Duration = .seconds(2)
    private static let releaseTime: Duration = .seconds(5)
    /// The counts that a killed worker takes with it. An idle worker sends none.
    private static let statisticsInterval: Duration = .seconds(1)

    /// - Parameters:
    ///   - name: unique name; `host:pid:random` if nil.
    ///   - group: event loops of the connections. It must not be shut down before the worker has ended, which would
    ///     wait for ever.
    ///   - leaseGroup: one event loop that nothing else uses; if nil, the worker makes one and ends it with itself.
    ///   - onHungRender: called after a codec has hung and the worker has stopped: the process must end, as a thread
    ///     cannot be stopped from outside. Called at most once.
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
        let loop = group.next()
        self.loop = loop
        ownGroup = leaseGroup == nil ? MultiThreadedEventLoopGroup(numberOfThreads: 1) : nil
        let history = History(file: configuration.history, logger: logger)
        let shared = Self.sharedCache(
            configuration,
            owner: name,
            group: group,
            logger: logger,
            statistics: statistics,
            history: history
        )
        let isBypassed = configuration.cachePolicy == .storeNothing
        (lock, bypassedCache) = isBypassed ? (nil, shared) : (shared, nil)
        let queue = configuration.address.shard(0, role: "control", group: loop, logger: logger)
        let limiter = Self.limiter(configuration, queue, statistics: statistics, history: history, logger: logger)
        limiters = HostLimiters(limiter)
        pipeline = Self.pipeline(
            configuration,
            flights: lock,
            limiter: limiters,
            statistics: statistics,
            logger: logger
        )
        watchdog = RenderWatchdog(pipeline: pipeline, timeLimit: configuration.renderLimits.time, logger: logger)
        self.onHungRender = onHungRender
        files = ThreadPool(name: "megaton-output", count: Self.fileThreads)
        let shards = ShardList()
        self.shards = shards
        isolated = configuration.isolate.map { start in
            SuspectIsolation(
                report: { [weak shards] pid in
                    // Without shards the worker has ended.
                    guard let shards else { return JobQueue.WorkerExit(hadRegistered: true, ended: 0) }
                    return try await shards.queue.report(deathOf: pid, on: ProcessInfo.processInfo.hostName)
                },
                logger: logger,
                start: start
            )
        }
        parts = WorkerShard.Parts(
            configuration: configuration,
            name: name,
            loop: loop,
            leaseGroup: leaseGroup ?? ownGroup ?? group,
            runner: JobRunner(
                pipeline: pipeline,
                credentials: configuration.credentials,
                output: FileOutput(access: configuration.fileAccess, threads: files),
                statistics: statistics,
                objects: Self.objectOutput(configuration, logger: logger),
                failOn: configuration.failOn,
                optionNames: configuration.optionNames,
                isSourceShared: configuration.isSourceShared,
                bypassedCache: bypassedCache
            ),
            places: ClaimLoop.places(configuration),
            limiters: limiters,
            isolated: isolated,
            statistics: statistics,
            history: history,
            logger: logger
        )
        shards.set([WorkerShard(0, parts, queue: queue, limiter: limiter)], of: ShardedQueue(queue))
    }

    /// The shards of the worker's queue.
    private final class ShardList: Sendable {
        private let state = Mutex<(all: [WorkerShard], queue: ShardedQueue?)>(([], nil))

        var all: [WorkerShard] { state.withLock { $0.all } }
        var first: WorkerShard { all[0] }
        /// The same shards as a queue.
        var queue: ShardedQueue { state.withLock { $0.queue ?? ShardedQueue($0.all[0].queue) } }

        func set(_ all: [WorkerShard], of queue: ShardedQueue) { state.withLock { $0 = (all, queue) } }
    }

    /// Connects and checks that this Redis may hold jobs, and those of all other shards of the queue.
    ///
    /// - Parameter limit: how long to retry while Redis is unreachable or still loading; zero makes one attempt.
    /// - Throws: `RedisError` with the reason of the last attempt, or if this Redis may evict jobs, or is used by a
    ///   version with which this one cannot work, or if the servers are not those of the queue's shards.
    package func start(waitingForRedis limit: Duration = .zero) async throws {
        let first = shards.first
        try await EvictionPolicyCheck.connect(first.queue.redis, waiting: limit, logger: logger)
        // Before the start writes anything there: the servers may be named in another order.
        let layout = try await configuration.address.layout(first.queue, group: loop, logger: logger)
        try await ProtocolCheck(queue: first.queue, logger: logger).start()
        try await addShards(layout, waitingForRedis: limit)
        if lock != nil {
            let servers = shards.all.map(\.queue).servers
            await CacheGrowth.warnIfRisky(servers, caches: configuration.caches, logger: logger)
        }
        starting.finish()
    }

    /// Connects to the other shards of the queue.
    private func addShards(_ layout: ShardLayout, waitingForRedis limit: Duration) async throws {
        let (first, address) = (shards.first, configuration.address)
        var queues = [first.queue]
        for number in 1..<max(layout.count, 1) {
            queues.append(address.shard(number, role: "control", group: loop, logger: logger))
        }
        do {
            for queue in queues.dropFirst() {
                try await EvictionPolicyCheck.connect(queue.redis, waiting: limit, logger: logger)
                try await layout.check(queue, servers: address.servers.count)
                try await ProtocolCheck(queue: queue, logger: logger).start()
            }
        } catch {
            for queue in queues.dropFirst() { queue.close() }
            throw error
        }
        let others = queues.dropFirst().enumerated().map { index, queue in
            let limiter = Self.limiter(
                configuration,
                queue,
                statistics: statistics,
                history: parts.history,
                logger: logger
            )
            return WorkerShard(index + 1, parts, queue: queue, limiter: limiter)
        }
        for shard in [first] + others { shard.fallback?.divideLimits(by: layout.count) }
        limiters.use(others.map(\.limiter))
        shards.set([first] + others, of: ShardedQueue(queues, layout: layout))
    }

    /// Whether the last renewal of leases succeeded and is more recent than one lease, so that jobs claimed now can be
    /// kept; of a queue with several shards, in any of them. A single failed renewal makes this false until the next
    /// one succeeds.
    public var isReady: Bool {
        shards.all.contains { shard in
            shard.running.renewed.map { $0.duration(to: .now) < configuration.lease } ?? false
        }
    }

    /// Whether the heartbeat of a shard hangs: for long it has received neither an answer of Redis nor an error.
    package var isHung: Bool {
        shards.all.contains { $0.heartbeat.pulse.isOverdue(after: max(Pulse.limit, $0.heartbeat.interval * 3)) }
    }

    /// Sets the metrics that describe the state now; called before they are read.
    package func updateGauges() {
        let running = shards.all.reduce(0) { $0 + $1.running.usedCount }
        gauges.set(places: configuration.concurrency, running: running, configuration.memory)
    }

    /// Works until the signal, then drains: jobs that do not finish within the drain timeout are released.
    ///
    /// If the queue changes to a protocol that this worker does not speak, or to another number of shards, it raises
    /// the signal to `.drain` itself, and `refusal` has the reason.
    package func run(until signal: ShutdownSignal) async {
        logger.info("worker started", metadata: [LogKey.queue: "\(configuration.keys.queue)"])
        let shards = shards.all
        // At once, so that a shard that is away delays no other one.
        await Self.forEach(shards) { shard in
            await self.reportPredecessors(shard.queue)
            await shard.heartbeat.renew()
        }
        await withTaskGroup(of: Void.self) { group in
            for shard in shards {
                group.addTask { await shard.heartbeat.run() }
                group.addTask { await shard.sweeper.run() }
                group.addTask { await shard.limiter.run() }
                if let fallback = shard.fallback { group.addTask { await fallback.runUntilCancelled() } }
                group.addTask {
                    let check = ProtocolCheck(queue: shard.queue, logger: self.logger)
                    self.end(because: await check.run(reportsFormer: false), signal)
                }
            }
            group.addTask {
                let check = ShardCheck(queue: self.shards.queue, logger: self.logger, isSpread: true)
                self.end(because: await check.run(), signal)
            }
            group.addTask { await self.endIfRenderHangs(signal) }
            group.addTask { await self.flushStatistics() }
            group.addTask {
                await every(WorkerPlaces.lookInterval, startsAtOnce: false) { self.parts.places.leaveLongFetches() }
            }
            if let lock {
                group.addTask { await lock.run() }
                group.addTask {
                    await CacheRefusal.warn(self.configuration.caches, group: self.loop, logger: self.logger)
                }
            }
            if let isolated {
                group.addTask {
                    await withTaskGroup(of: Void.self) { process in
                        process.addTask {
                            await isolated.run { for shard in shards { shard.look() } }
                        }
                        process.addTask { await signal.wait(for: .drain) }
                        await process.next()
                        process.cancelAll()
                    }
                }
            }
            group.addTask {
                await signal.wait(for: .drain)
                self.drainStart.withLock { $0 = .now }
                // A worker that shuts down does not wait for an unreachable Redis: leases run out by themselves, and
                // settlements are retried.
                for shard in shards { shard.failFast() }
            }
            await Self.forEach(shards) { await $0.run(until: signal) }
            // The lock still renews the flights of these uploads.
            let drained = drainStart.withLock { $0 }?.duration(to: .now) ?? .zero
            await finishBackgroundWork(within: max(.zero, configuration.drainTimeout - drained), unless: signal)
            group.cancelAll()
        }
        await signOff()
        logger.info("worker stopped")
        if hasHungRender.load(ordering: .acquiring) { endProcess() }
    }

    /// Ends the worker after a render has hung: its job is settled as failed, then the others are released, and the
    /// process ends when the worker has signed off, or if its jobs do not stop.
    private func endIfRenderHangs(_ signal: ShutdownSignal) async {
        guard await watchdog.run() else { return }
        hasHungRender.store(true, ordering: .releasing)
        do {
            // Not before: a worker whose drain timeout is over would release the job instead.
            try await Task.sleep(for: Self.settlementTime)
            signal.raise(to: .drain)
            try await Task.sleep(for: Self.releaseTime)
            signal.raise(to: .abort)
            try await Task.sleep(for: Self.releaseTime)
        } catch {
            return  // The jobs have ended, and the worker signs off.
        }
        endProcess()
    }

    private func endProcess() {
        if !hasEndedProcess.exchange(true, ordering: .acquiringAndReleasing) { onHungRender() }
    }

    /// Ends the worker by itself.
    private func end(because error: RedisError?, _ signal: ShutdownSignal) {
        guard let error else { return }
        refusal.withLock { $0 = error }
        signal.raise(to: .drain)
    }

    /// Runs the body for all shards at once.
    private static func forEach(
        _ shards: [WorkerShard],
        _ body: @escaping @Sendable (WorkerShard) async -> Void
    ) async {
        await withDiscardingTaskGroup { group in
            for shard in shards { group.addTask { await body(shard) } }
        }
    }

    /// Waits for entries that are being stored or revalidated after their jobs have ended, until the second
    /// signal.
    private func finishBackgroundWork(within limit: Duration, unless signal: ShutdownSignal) async {
        let left = await withTaskGroup(of: Int?.self) { group in
            group.addTask { await self.pipeline.finishBackgroundWork(within: limit) }
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
                "entries were not stored in the cache: the drain timeout is over",
                metadata: [LogKey.count: "\(left)"]
            )
        }
        await lock?.abandonLeads()
    }

    // MARK: - Background tasks

    private func reportPredecessors(_ queue: JobQueue) async {
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
                try await statistics.flush(to: shards.first.queue)
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
        await Self.forEach(shards.all) { shard in
            do {
                // The process that started this one takes a worker without an entry for one that could not start.
                let leaves = !self.hasHungRender.load(ordering: .acquiring)
                try await shard.queue.release([], worker: self.name, leaves: leaves)
            } catch {
                self.logger.warning(
                    "the worker could not sign off; its entry expires",
                    metadata: [LogKey.error: "\(error)"]
                )
            }
        }
        await isCounted
        await close()
    }

    /// Closes the connections and ends the threads. Safe to repeat.
    func close() async {
        for shard in shards.all { shard.close() }
        lock?.cache.close()
        bypassedCache?.cache.close()
        files.stop()
        do {
            try await ownGroup?.shutdownGracefully()
        } catch {
            logger.warning("an event loop did not end", metadata: [LogKey.error: "\(error)"])
        }
    }

    private func addLastStatistics() async {
        do {
            try await statistics.flush(to: shards.first.queue)
        } catch {
            logger.warning("the last statistics could not be added and are lost", metadata: [LogKey.error: "\(error)"])
        }
    }
}
