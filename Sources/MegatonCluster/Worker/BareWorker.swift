package import Logging
internal import MegatonPipeline
package import MegatonRedis

/// A worker without a pipeline: claims, renews leases, sweeps, checks for a leader and settles jobs like a real one.
/// Benchmarks use it to measure the load of a large fleet on its queue.
package struct BareWorker: Sendable {
    private let name: String
    private let queue: JobQueue
    private let claims: ClaimLoop
    private let heartbeat: LeaseHeartbeat
    private let sweeper: LeaseSweeper
    private let fallback: Leadership
    private let limiter: HostRateLimiter
    private let pace: IdlePace
    private let logger: Logger

    /// Interval at which a worker of a small fleet checks whether it must admit jobs by itself.
    private static let pollInterval: Duration = .seconds(1)

    /// - Parameters:
    ///   - queue: on a connection that may be shared.
    ///   - leases: the same queue on another connection.
    ///   - wake: a connection that nothing else uses.
    ///   - limiter: the host limiter that the runner asks for permits.
    package init(
        _ configuration: Worker.Configuration,
        name: String,
        queue: JobQueue,
        leases: JobQueue,
        wake: RedisClient,
        limiter: HostRateLimiter,
        runner: any JobRunning,
        logger: Logger
    ) {
        self.name = name
        self.queue = queue
        self.limiter = limiter
        self.logger = logger
        let (running, statistics, pace) = (RunningJobs(), StatisticsRecorder(), IdlePace())
        self.pace = pace
        let handler = JobHandler(
            queue: queue,
            completions: CompletionBatcher(queue, worker: name),
            runner: runner,
            running: running,
            statistics: statistics,
            retry: configuration.retry,
            maximumStalls: configuration.maximumStalls,
            worker: name,
            history: History(file: nil, logger: logger),
            logger: logger,
            places: configuration.concurrency
        )
        claims = ClaimLoop(
            configuration,
            queue: queue,
            wake: wake,
            handler: handler,
            running: running,
            pace: pace,
            logger: logger
        )
        heartbeat = LeaseHeartbeat(
            queue: leases,
            worker: name,
            info: Worker.info(configuration),
            running: running,
            lease: configuration.lease,
            interval: LeaseHeartbeat.interval(configuration.renewInterval, of: configuration.lease),
            statistics: statistics,
            pace: pace,
            logger: logger
        )
        sweeper = LeaseSweeper(
            queue: queue,
            role: .worker(interval: configuration.sweepInterval),
            logger: logger,
            pace: pace
        )
        fallback = Leadership(queue: queue, name: name, lease: configuration.lease, isFallback: true)
    }

    /// Works until the signal, and signs off.
    package func run(until signal: ShutdownSignal) async {
        await heartbeat.renew()
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await heartbeat.run() }
            group.addTask { await sweeper.run() }
            group.addTask { await poll() }
            group.addTask { await limiter.run() }
            await claims.run(until: signal)
            group.cancelAll()
        }
        do {
            try await queue.release([], worker: name, leaves: true)
        } catch {
            logger.warning("the worker could not sign off; its entry expires", metadata: [LogKey.error: "\(error)"])
        }
    }

    /// Checks for a leader, as a worker's fallback coordinator does while there is one.
    private func poll() async {
        await repeating {
            do {
                _ = try await fallback.hasLeader()
            } catch {
                logger.debug("cannot look for a leader", metadata: [LogKey.error: "\(error)"])
            }
            await pace.sleep(Self.pollInterval)
            return .zero
        }
    }
}
