internal import Logging
internal import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

/// Everything that a worker has for one shard of its queue: the connections, the claim loop, the heartbeat, the sweeper
/// and the fallback coordinator. The shards of a worker share its places, its pipeline and its name.
struct WorkerShard: Sendable {
    let queue: JobQueue
    let leases: RedisClient
    let wake: RedisClient
    let running: RunningJobs
    private let claims: ClaimLoop
    /// Claims and settlements of single jobs are small, and wait for Redis most of the time. Jobs and packs run
    /// elsewhere.
    private let executor: EventLoopExecutor
    let heartbeat: LeaseHeartbeat
    let sweeper: LeaseSweeper
    let limiter: HostRateLimiter
    /// Decides how often the parts look at the shard while it is idle.
    let pace: IdlePace
    /// Leads the shard if no coordinator does.
    let fallback: Coordinator?

    /// The parts of a worker that all of its shards use.
    struct Parts: Sendable {
        let configuration: Worker.Configuration
        let name: String
        /// The event loop of the connections to the control Redis.
        let loop: any EventLoop
        /// Event loop of the heartbeats alone.
        let leaseGroup: any EventLoopGroup
        let runner: any JobRunning
        let places: WorkerPlaces
        let limiters: HostLimiters
        let isolated: SuspectIsolation?
        let statistics: StatisticsRecorder
        let history: History
        let logger: Logger
    }

    /// - Parameter leases: the connection of the heartbeat; its own if nil.
    init(
        _ number: Int,
        _ parts: Parts,
        queue: JobQueue,
        leases: RedisClient? = nil,
        limiter: HostRateLimiter
    ) {
        let (configuration, address) = (parts.configuration, parts.configuration.address)
        let (server, keys) = (address.server(number), queue.keys)
        var logger = parts.logger
        if number > 0 { logger[metadataKey: LogKey.shard] = "\(number)" }
        self.queue = queue
        self.limiter = limiter
        let leases = leases ?? RedisClient(server, role: "lease", group: parts.leaseGroup, logger: logger)
        self.leases = leases
        wake = RedisClient(server, role: "wake", group: parts.loop, logger: logger)
        running = RunningJobs()
        executor = EventLoopExecutor(parts.loop)
        let pace = IdlePace(shardFactor: { [places = parts.places] in places.idleFactor })
        self.pace = pace
        sweeper = LeaseSweeper(
            queue: queue,
            role: .worker(interval: configuration.sweepInterval),
            logger: logger,
            pace: pace
        )
        var retry = configuration.retry
        retry.waitsForDisk = configuration.waitsForDisk
        let handler = JobHandler(
            queue: queue,
            completions: CompletionBatcher(queue, worker: parts.name, places: configuration.concurrency),
            runner: configuration.waitsForDisk && !configuration.takesOnlySuspects
                ? DiskWatchingRunner(runner: parts.runner, places: parts.places, logger: logger) : parts.runner,
            running: running,
            statistics: parts.statistics,
            retry: retry,
            maximumStalls: configuration.maximumStalls,
            worker: parts.name,
            history: parts.history,
            optionNames: configuration.optionNames,
            logger: logger,
            places: configuration.concurrency,
            didHold: { [limiters = parts.limiters] in limiters.noteHeld(by: $0, in: number) },
            spans: SpanSource(tracer: configuration.tracer)
        )
        claims = ClaimLoop(
            configuration,
            queue: queue,
            wake: wake,
            handler: handler,
            running: running,
            isolated: parts.isolated,
            places: parts.places,
            pace: pace,
            logger: logger
        )
        fallback = configuration.takeoverDelay.map { delay in
            var settings = Coordinator.Configuration()
            settings.keys = keys
            settings.isPart = true
            settings.takeoverDelay = delay
            settings.pace = pace
            if configuration.cachePolicy == .storeReused { settings.caches = configuration.caches }
            return Coordinator(settings, redis: server, group: parts.loop, name: parts.name, logger: logger)
        }
        heartbeat = LeaseHeartbeat(
            queue: JobQueue(leases, keys: keys),
            worker: parts.name,
            info: Worker.info(configuration),
            running: running,
            lease: configuration.lease,
            interval: LeaseHeartbeat.interval(configuration.renewInterval, of: configuration.lease),
            statistics: parts.statistics,
            pace: pace,
            places: parts.places,
            logger: logger
        )
    }

    /// Claims jobs and runs them until the signal, and until those under way have ended.
    func run(until signal: ShutdownSignal) async {
        await withTaskExecutorPreference(executor) { await claims.run(until: signal) }
    }

    /// Looks for jobs at once, instead of at the next wakeup.
    func look() { claims.look() }

    /// Does not wait for an unreachable Redis any more.
    func failFast() {
        queue.redis.failFast()
        leases.failFast()
    }

    /// Safe to repeat.
    func close() {
        queue.close()
        leases.close()
        wake.close()
    }
}

/// Runs tasks on an event loop: those that wait for replies of Redis go on in the thread that has read them. On the
/// shared pool each reply would wake another thread, which is a fifth of what a short job costs.
///
/// For short work only, as it delays all connections of the loop. A `Task` that such a task makes runs on the shared
/// pool, and so does work below `withTaskExecutorPreference(globalConcurrentExecutor)`. The loop must not be shut down
/// before the tasks have ended, as it drops what it is given afterwards.
final class EventLoopExecutor: TaskExecutor {
    private let loop: any EventLoop

    init(_ loop: any EventLoop) { self.loop = loop }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // Holds the executor until the job has run, as the reference below does not.
        loop.execute { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}
