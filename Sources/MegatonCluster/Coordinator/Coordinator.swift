internal import Foundation
public import Logging
public import MegatonPipeline
public import MegatonRedis
public import NIOCore
import Synchronization

/// Takes jobs in: the leader among the coordinators stages what was pushed, validates it, and admits it into a bounded
/// window of jobs that can be claimed. The others stand by.
///
/// Losing all coordinators stops nothing that is admitted: workers claim, finish, retry and sweep by themselves.
public final class Coordinator: Sendable {
    /// Limits and times.
    public struct Configuration: Sendable {
        public var keys = QueueKeys()
        /// Jobs that are admitted at a time, at the most; the rest waits in the intake, where a job costs its JSON only.
        /// As a rule it is two seconds of work.
        public var window = 16_384
        /// Jobs that one round stages.
        public var chunk = 512
        /// How long a leader that falls silent stays the leader.
        public var leaderLease: Duration = .seconds(10)
        /// How often the leader says that it is there.
        public var renewInterval: Duration = .seconds(3)
        /// Lists of renditions by name, for jobs that name one.
        public var presets: [String: [Rendition]] = [:]
        /// How long a batch that has ended is known.
        public var batchRetention: Duration = .seconds(7 * 24 * 3600)
        /// Nil for a coordinator. Else it leads only after the cluster has had no leader for so long, with the presets
        /// of the last one, and gives way to any coordinator: what a worker has beside its jobs.
        public var reserve: Duration?

        public init() {}
    }

    private let configuration: Configuration
    private let leadership: Leadership
    private let watch: IntakeWatch
    private let queue: JobQueue
    private let logger: Logger
    /// Since when nobody leads, as a reserve has seen it.
    private let leaderless = Mutex<ContinuousClock.Instant?>(nil)
    /// When Redis last answered an attempt to lead or a renewal.
    private let lastAnswer = Mutex<ContinuousClock.Instant?>(nil)

    /// How soon it looks again while jobs wait and the window is full.
    private static let fullWait: Duration = .milliseconds(5)
    /// And how soon at the least, while jobs end.
    private static let movingWait: Duration = .milliseconds(20)
    /// And where nothing ends.
    private static let longestFullWait: Duration = .milliseconds(100)
    /// How often it is looked who works, and whether the queue is still held up.
    private static let lookInterval: Duration = .seconds(1)
    private static let trimInterval: Duration = .seconds(60)
    private static let trimmedAtOnce = 100
    /// Hosts whose requests are counted one by one.
    private static let hostsKept = 10_000

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
        let isReserve = configuration.reserve != nil
        leadership = Leadership(queue: queue, name: name, lease: configuration.leaderLease, isReserve: isReserve)
    }

    /// Whether Redis has answered an attempt to lead, or a renewal of the lead, within the leader's lease.
    public var isReady: Bool {
        lastAnswer.withLock { $0 }.map { .now - $0 < configuration.leaderLease } ?? false
    }

    /// Connects and checks that the Redis is fit to hold jobs.
    ///
    /// - Parameter limit: how long it tries again while Redis is away or still loads; zero makes one attempt.
    /// - Throws: `RedisError` with the reason of the last attempt, or if this Redis may evict jobs.
    public func start(waitingForRedis limit: Duration = .zero) async throws {
        try await ControlRedisCheck.connect(queue.redis, waiting: limit, logger: logger)
    }

    /// Works until the task is cancelled, then gives the lead up.
    public func run() async {
        await withTaskCancellationHandler {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await self.watch.run() }
                await work()
                group.cancelAll()
                watch.close()
            }
        } onCancel: {
            // What it leads runs out by itself.
            queue.redis.hurry()
        }
        queue.redis.close()
    }

    private func work() async {
        if !isReserve { logger.info("coordinator started", metadata: [LogKey.queue: "\(configuration.keys.queue)"]) }
        var failures = Backoff()
        while !Task.isCancelled {
            do {
                let wait = isReserve ? Self.lookInterval : configuration.renewInterval
                if try await isWanted() {
                    let attempt = try await leadership.attempt()
                    lastAnswer.withLock { $0 = .now }
                    switch attempt {
                    case .leads(let epoch):
                        try await withThrowingTaskGroup(of: Void.self) { group in
                            // Beside the rounds, as some of them wait: as long as it leads nobody else has to sweep.
                            group.addTask { await self.sweep() }
                            try await lead(epoch)
                            group.cancelAll()
                        }
                    // Not longer than the other's lease lasts.
                    case .waits(let left): try await Task.sleep(for: min(wait, left + Self.fullWait))
                    }
                } else {
                    try await Task.sleep(for: wait)
                }
                failures.reset()
            } catch is CancellationError {
                break
            } catch {
                logger.warning("coordinator lost its Redis or its lead", metadata: [LogKey.error: "\(error)"])
                // What went wrong here may go right elsewhere; our lease must not keep the others out.
                await resign()
                try? await Task.sleep(for: failures.next(after: error))  // Cancelled: the loop's condition ends it.
            }
        }
        // The task is cancelled by now, and Redis' client does not mind.
        await resign()
        if !isReserve { logger.info("coordinator stopped") }
    }

    private func sweep() async {
        while !Task.isCancelled {
            do {
                let swept = try await queue.sweep(leads: true) ?? 0
                if swept > 0 {
                    logger.warning("leases ran out; the jobs are ready again", metadata: [LogKey.count: "\(swept)"])
                }
            } catch {
                logger.debug("cannot sweep", metadata: [LogKey.error: "\(error)"])
            }
            try? await Task.sleep(for: JobQueue.leadersSweep)  // Cancelled: the loop's condition ends it.
        }
    }

    /// A lead that is not given up runs out.
    private func resign() async {
        do {
            try await leadership.resign()
        } catch {
            logger.debug("the lead was not given up", metadata: [LogKey.error: "\(error)"])
        }
    }

    private var isReserve: Bool { configuration.reserve != nil }

    /// A reserve waits until nobody has led for a while: a coordinator that restarts is to be the leader again.
    private func isWanted() async throws(RedisError) -> Bool {
        guard let patience = configuration.reserve else { return true }
        let since = try await leadership.hasLeader() ? nil : leaderless.withLock { $0 } ?? .now
        leaderless.withLock { $0 = since }
        return since.map { $0.duration(to: .now) >= patience } ?? false
    }

    /// The leader's presets, for a reserve that may have to take its place.
    private func presets() async throws -> [String: [Rendition]] {
        let key = configuration.keys.presets
        guard isReserve else {
            // A script, as SET is refused by a full Redis, which could not be worked off then.
            try await queue.redis.run(
                QueueScripts.publish,
                keys: [key],
                arguments: [.string(WireJSON.text(configuration.presets))]
            )
            return configuration.presets
        }
        guard let json = try await queue.redis.send(["GET", .string(key)]).string else { return [:] }
        return try JSONDecoder().decode([String: [Rendition]].self, from: Data(json.utf8))
    }

    /// Leads for as long as it is the leader.
    private func lead(_ epoch: Int) async throws {
        logger.info("leading", metadata: [LogKey.epoch: "\(epoch)"])
        let intake = Intake(
            queue: queue,
            name: leadership.holder,
            validator: JobValidator(presets: try await presets())
        )
        try await intake.replay(epoch: epoch)
        var window = AdmissionWindow(limit: configuration.window)
        var staged = StagedJobs()
        var renewal = Regularly(configuration.renewInterval)
        var look = Regularly(Self.lookInterval, isDueAtOnce: true)
        var pause = Self.fullWait
        var trim = Regularly(Self.trimInterval, isDueAtOnce: true)
        while !Task.isCancelled {
            if renewal.isDue(at: .now) {
                guard try await leadership.tryToLead() == epoch else {
                    logger.warning("somebody else leads now", metadata: [LogKey.epoch: "\(epoch)"])
                    return
                }
                lastAnswer.withLock { $0 = .now }
            }
            if look.isDue(at: .now) { window.observe(slots: try await intake.slots()) }
            if trim.isDue(at: .now) {
                try await queue.forgetBatches(endedFor: configuration.batchRetention, limit: Self.trimmedAtOnce)
                try await queue.forgetRareHosts(above: Self.hostsKept)
            }
            switch try await intake.admit(
                epoch: epoch,
                window: &window,
                staged: &staged,
                chunk: configuration.chunk
            ) {
            case .admitted(let counts):
                pause = Self.fullWait
                if counts.invalid > 0 {
                    logger.info("jobs were invalid", metadata: [LogKey.count: "\(counts.invalid)"])
                }
            case .full:
                try await Task.sleep(for: pause)
                pause = min(pause * 2, window.isMoving ? Self.movingWait : Self.longestFullWait)
            case .draining: try await Task.sleep(for: Self.lookInterval)
            case .empty: await watch.wait()
            }
        }
    }
}
