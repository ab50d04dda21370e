public import Logging
public import MegatonPipeline
public import MegatonRedis
public import NIOCore

/// Takes jobs in: the leader among the coordinators stages what was pushed, validates it, and admits it into a bounded
/// window of jobs that can be claimed. The others stand by.
///
/// Losing all coordinators stops nothing that is admitted: workers claim, finish, retry and sweep by themselves.
public final class Coordinator: Sendable {
    /// Limits and times.
    public struct Configuration: Sendable {
        public var keys = QueueKeys()
        /// Jobs that are ready or running at a time; the rest waits in the intake, where a job costs its JSON only.
        public var window = 4096
        /// Jobs that one round stages.
        public var chunk = 256
        /// How long a leader that falls silent stays the leader.
        public var leaderLease: Duration = .seconds(10)
        /// How often the leader says that it is there.
        public var renewInterval: Duration = .seconds(3)
        /// Lists of renditions by name, for jobs that name one.
        public var presets: [String: [Rendition]] = [:]

        public init() {}
    }

    private let configuration: Configuration
    private let intake: Intake
    private let leadership: Leadership
    private let watch: IntakeWatch
    private let queue: JobQueue
    private let logger: Logger

    /// How soon it looks again while jobs wait and the window is full.
    private static let fullWait: Duration = .milliseconds(20)

    /// - Parameter name: `host:pid:random`.
    public init(
        _ configuration: Configuration,
        redis: RedisConfiguration,
        group: any EventLoopGroup,
        name: String,
        logger: Logger
    ) {
        self.configuration = configuration
        var logger = logger
        logger[metadataKey: LogKey.coordinator] = "\(name)"
        self.logger = logger
        let control = RedisClient(redis, role: "coordinator", group: group, logger: logger)
        watch = IntakeWatch(redis, keys: configuration.keys, group: group, logger: logger)
        queue = JobQueue(control, keys: configuration.keys)
        leadership = Leadership(queue: queue, name: name, lease: configuration.leaderLease)
        intake = Intake(queue: queue, name: name, validator: JobValidator(presets: configuration.presets))
    }

    /// Connects and checks that the Redis is fit to hold jobs.
    public func start() async throws {
        try await queue.redis.connect()
        try await ControlRedisCheck.run(queue.redis)
    }

    /// Works until the task is cancelled, then gives the lead up.
    public func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.watch.run() }
            await work()
            group.cancelAll()
            watch.close()
        }
        queue.redis.close()
    }

    private func work() async {
        logger.info("coordinator started", metadata: [LogKey.queue: "\(configuration.keys.queue)"])
        var failures = Backoff()
        while !Task.isCancelled {
            do {
                if let epoch = try await leadership.tryToLead() {
                    try await lead(epoch)
                } else {
                    try await Task.sleep(for: configuration.renewInterval)
                }
                failures.reset()
            } catch is CancellationError {
                break
            } catch {
                logger.warning("coordinator lost its Redis or its lead", metadata: [LogKey.error: "\(error)"])
                try? await Task.sleep(for: failures.next())  // Cancelled: the loop's condition ends it.
            }
        }
        // The task is cancelled by now, and Redis' client does not mind. A lead that is not given up runs out.
        do {
            try await leadership.resign()
        } catch {
            logger.warning("the lead was not given up", metadata: [LogKey.error: "\(error)"])
        }
        logger.info("coordinator stopped")
    }

    /// Leads for as long as it is the leader.
    private func lead(_ epoch: Int) async throws {
        logger.info("leading", metadata: [LogKey.epoch: "\(epoch)"])
        try await intake.replay(epoch: epoch)
        var nextRenewal = ContinuousClock.now + configuration.renewInterval
        while !Task.isCancelled {
            if ContinuousClock.now >= nextRenewal {
                guard try await leadership.tryToLead() == epoch else {
                    logger.warning("somebody else leads now", metadata: [LogKey.epoch: "\(epoch)"])
                    return
                }
                nextRenewal = ContinuousClock.now + configuration.renewInterval
                try await queue.sweep()
            }
            switch try await intake.admit(epoch: epoch, window: configuration.window, chunk: configuration.chunk) {
            case .admitted(let counts):
                if counts.invalid > 0 {
                    logger.info("jobs were invalid", metadata: [LogKey.count: "\(counts.invalid)"])
                }
            case .full: try await Task.sleep(for: Self.fullWait)
            case .empty: await watch.wait()
            }
        }
    }
}
