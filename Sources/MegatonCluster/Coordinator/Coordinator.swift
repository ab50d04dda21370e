internal import Foundation
package import Logging
public import MegatonPipeline
package import MegatonRedis
package import NIOCore
internal import NIOPosix
import Synchronization

/// Admits jobs: the leader among the coordinators stages pushed jobs, validates them, and admits them into a bounded
/// window of jobs that can be claimed. The other coordinators stand by.
///
/// The loss of all coordinators stops no admitted job: workers claim, finish, retry and sweep by themselves.
public final class Coordinator: Sendable {
    /// Limits and times.
    public struct Configuration: Sendable {
        package var keys = QueueKeys()
        /// Redis servers of the queue's other shards, if it is on several; see `QueueAddress`.
        package var furtherControls: [RedisConfiguration] = []
        /// Whether it serves the shard of `keys` only, for a process that serves the others too.
        var isPart = false
        /// Maximum number of admitted jobs at a time; the others wait in the intake, where a job costs only its JSON.
        /// The window is usually two seconds of work. At least 1. Each shard of a queue has a window of its own.
        public var window = 16_384
        /// Maximum number of jobs that one round stages.
        package var chunk = 3072
        /// Lease of the leader: how long a silent leader stays the leader.
        package var leaderLease: Duration = .seconds(10)
        /// Interval at which the leader renews its lease.
        package var renewInterval: Duration = .seconds(3)
        /// Lists of renditions by name, for jobs that name one.
        public var presets: [String: [Rendition]] = [:]
        /// How long a batch that has ended is remembered, with outcomes that were not read.
        public var batchRetention: Duration = .seconds(7 * 24 * 3600)
        /// How long dead letters are kept, and limits of dead letters and outcomes.
        package var retention = Retention()
        /// How outcomes are sent to webhooks; nil to refuse jobs that name one.
        package var webhooks: WebhookConfiguration?
        /// Nil for a coordinator. Otherwise it is a worker's fallback: it leads only after the cluster has had no
        /// leader for this time, with the presets of the last one, and yields to any coordinator.
        package var takeoverDelay: Duration?
        /// Decides how often a fallback looks for a leader.
        var pace = IdlePace()
        /// Servers of the shared cache, in which the leader marks the originals of sources that several admitted jobs
        /// name; none for workers without a shared cache, or with a policy by which the marks have no effect.
        package var caches: [RedisConfiguration] = []

        /// Creates the default configuration.
        public init() {}

        /// The reason why no coordinator can run with these values; nil if one can.
        var validationError: String? {
            if window < 1 { return "A coordinator's window must be at least 1, not \(window)." }
            do throws(ImageError) {
                _ = try webhooks?.rules.urlPolicy()
                return nil
            } catch {
                return "A rule for webhooks cannot be used: \(error.message)"
            }
        }
    }

    private let configuration: Configuration
    private let redis: RedisConfiguration
    private let group: any EventLoopGroup
    /// Those of the other shards: none until it has started.
    private let others = Mutex<(coordinators: [Coordinator], queue: ShardedQueue)?>(nil)
    private let shardCount = Mutex(1)
    private let leadership: Leadership
    private let listener: ListListener
    private let outboxListener: ListListener
    private let queue: JobQueue
    private let sweeper: LeaseSweeper
    private let repeats: RepeatedSources?
    private let metrics: AdmissionMetrics
    private let logger: Logger
    let starting = ServiceStart()
    /// The reason for which it ended by itself.
    let refusal = Mutex<RedisError?>(nil)
    /// Time since which a fallback has seen no leader.
    private let leaderless = Mutex<ContinuousClock.Instant?>(nil)
    /// Time at which Redis last answered an attempt to lead or a renewal.
    private let lastAnswer = Mutex<ContinuousClock.Instant?>(nil)
    /// The attempts to lead and the renewals.
    private let pulse = Pulse()
    /// The places in all workers, while it leads.
    private let places = Mutex(FleetPlaces())

    /// First pause while jobs wait and the window is full; each further pause is twice as long.
    private static let fullWait: Duration = .milliseconds(5)
    /// Longest such pause while jobs end.
    private static let movingWait: Duration = .milliseconds(20)
    /// Longest such pause while no job ends.
    private static let longestFullWait: Duration = .milliseconds(100)
    /// Shortest time between two counts of the places while workers sign on.
    private static let countInterval: Duration = .milliseconds(50)
    /// Interval at which the leader counts the places in workers, or checks whether the queue still drains, and at
    /// which a fallback of a small fleet, or one that sees no leader, looks for one.
    private static let pollInterval: Duration = .seconds(1)

    /// - Parameters:
    ///   - group: event loops of the connections.
    ///   - name: unique name; `host:pid:random` if nil.
    package init(
        _ configuration: Configuration,
        redis: RedisConfiguration,
        group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        name: String? = nil,
        logger: Logger
    ) {
        self.configuration = configuration
        (self.redis, self.group) = (redis, group)
        let name = name ?? ProcessIdentity.process()
        var logger = logger
        logger[metadataKey: LogKey.coordinator] = "\(name)"
        self.logger = logger
        metrics = AdmissionMetrics(shard: configuration.keys.shard)
        let control = RedisClient(redis, role: "coordinator", group: group, logger: logger)
        listener = ListListener(intakesOf: configuration.keys, redis, group: group, logger: logger)
        outboxListener = ListListener(outboxOf: configuration.keys, redis, group: group, logger: logger)
        queue = JobQueue(control, keys: configuration.keys)
        sweeper = LeaseSweeper(queue: queue, role: .leader, logger: logger)
        repeats =
            configuration.caches.isEmpty
            ? nil
            : RepeatedSources(
                cache: RedisDataCache(.init(), servers: configuration.caches, group: group, logger: logger),
                window: configuration.window,
                logger: logger
            )
        let isFallback = configuration.takeoverDelay != nil
        leadership = Leadership(queue: queue, name: name, lease: configuration.leaderLease, isFallback: isFallback)
    }

    /// Whether Redis has answered an attempt to lead, or a renewal of the lead, within the leader's lease.
    public var isReady: Bool {
        if lastAnswer.withLock({ $0 }).map({ .now - $0 < configuration.leaderLease }) ?? false { return true }
        return parts.contains { $0.isReady }
    }

    /// Whether the coordinator of a shard hangs: for long it has received neither an answer of Redis nor an error.
    package var isHung: Bool { pulse.isOverdue() || parts.contains { $0.isHung } }

    /// The queue over the connections of this coordinator; all of its shards if it has started.
    package var shards: ShardedQueue { others.withLock { $0?.queue } ?? ShardedQueue(queue) }

    /// Sets the number of shards that share the limits on memory.
    func divideLimits(by count: Int) { shardCount.withLock { $0 = count } }

    private var keeper: RetentionKeeper {
        var retention = configuration.retention
        retention.shards = shardCount.withLock { $0 }
        return RetentionKeeper(
            queue: queue,
            batches: configuration.batchRetention,
            retention: retention,
            webhooks: configuration.webhooks?.schedule ?? WebhookSchedule(),
            isFallback: isFallback,
            logger: logger
        )
    }

    /// The coordinators of the queue's other shards.
    private var parts: [Coordinator] { others.withLock { $0?.coordinators ?? [] } }

    /// Connects and checks that this Redis may hold jobs, and those of all other shards of the queue.
    ///
    /// - Parameter limit: how long to retry while Redis is unreachable or still loading; zero makes one attempt.
    /// - Throws: `RedisError` with the reason of the last attempt, or if this Redis may evict jobs, or is used by a
    ///   version with which this one cannot work, or if the servers are not those of the queue's shards.
    package func start(waitingForRedis limit: Duration = .zero) async throws {
        try await EvictionPolicyCheck.connect(queue.redis, waiting: limit, logger: logger)
        if configuration.isPart {
            try await ProtocolCheck(queue: queue, logger: logger).start()
        } else {
            let address = QueueAddress([redis] + configuration.furtherControls, queue: configuration.keys.queue)
            // Before the start writes anything there: the servers may be named in another order.
            let layout = try await address.layout(queue, group: group, logger: logger)
            try await ProtocolCheck(queue: queue, logger: logger).start()
            try await addShards(layout, of: address, waitingForRedis: limit)
        }
        starting.finish()
    }

    /// Starts a coordinator for each of the other shards of the queue.
    private func addShards(
        _ layout: ShardLayout,
        of address: QueueAddress,
        waitingForRedis limit: Duration
    ) async throws {
        var (coordinators, queues): ([Coordinator], [JobQueue]) = ([], [queue])
        do {
            for number in 1..<max(layout.count, 1) {
                var settings = configuration
                settings.keys = address.keys(number)
                settings.isPart = true
                var logger = logger
                logger[metadataKey: LogKey.shard] = "\(number)"
                let part = Coordinator(
                    settings,
                    redis: address.server(number),
                    group: group,
                    name: leadership.name,
                    logger: logger
                )
                part.divideLimits(by: layout.count)
                coordinators.append(part)
                queues.append(part.queue)
                try await EvictionPolicyCheck.connect(part.queue.redis, waiting: limit, logger: logger)
                // Before the start writes anything there: the servers may be named in another order.
                try await layout.check(part.queue, servers: address.servers.count)
                try await part.start()
            }
        } catch {
            for part in coordinators { part.close() }
            throw error
        }
        divideLimits(by: layout.count)
        others.withLock { $0 = (coordinators, ShardedQueue(queues, layout: layout)) }
    }

    /// Works until the task is cancelled, then releases the leader's lease.
    /// It ends by itself if the queue changes to a protocol that it does not speak, or to another number of shards;
    /// `refusal` then has the reason.
    package func runUntilCancelled() async {
        await withTaskCancellationHandler {
            await withTaskGroup(of: Void.self) { group in
                for listener in [listener, outboxListener] { group.addTask { await listener.run() } }
                if configuration.isPart || isFallback {
                    await workInAllShards()  // A worker, or the coordinator of shard 0, checks the queue.
                } else {
                    await workWhileUnchanged()
                }
                group.cancelAll()
                for listener in [listener, outboxListener] { listener.close() }  // Ends commands that still block.
            }
        } onCancel: {
            // If it leads and cannot release the lease, the lease runs out by itself.
            queue.redis.failFast()
        }
        close()
    }

    /// Works until the task is cancelled, or the queue changes to another protocol or number of shards.
    private func workWhileUnchanged() async {
        let shards = shards
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.workInAllShards() }
            for queue in shards.shards {
                group.addTask {
                    let check = ProtocolCheck(queue: queue, logger: self.logger)
                    self.end(because: await check.run(reportsFormer: queue.keys.shard == 0))
                }
            }
            group.addTask { self.end(because: await ShardCheck(queue: shards, logger: self.logger).run()) }
            // Each ends by itself only for good: a check with a refusal, the work by cancellation.
            await group.next()
            group.cancelAll()
        }
    }

    private func workInAllShards() async {
        await withDiscardingTaskGroup { group in
            for part in parts { group.addTask { await part.runUntilCancelled() } }
            await work()
        }
    }

    private func end(because error: RedisError?) {
        guard let error else { return }
        refusal.withLock { $0 = error }
    }

    /// Closes the connections. Safe to repeat.
    func close() {
        for part in parts { part.close() }
        listener.close()
        outboxListener.close()
        queue.redis.close()
        repeats?.close()
    }

    private func work() async {
        if !isFallback { logger.info("coordinator started", metadata: [LogKey.queue: "\(configuration.keys.queue)"]) }
        var failures = Backoff()
        var isLeading = false
        await repeating {
            pulse.beat()
            defer { isLeading = false }
            do {
                let shouldLead = try await shouldLead()
                var pause = isFallback ? Self.pollInterval : configuration.renewInterval
                if shouldLead {
                    let attempt = try await leadership.attempt()
                    lastAnswer.withLock { $0 = .now }
                    switch attempt {
                    case .leads(let epoch):
                        isLeading = true
                        try await withThrowingTaskGroup(of: Void.self) { group in
                            // Concurrent with the rounds, as some of them wait: while it leads, no other process has to
                            // sweep.
                            group.addTask { await self.sweeper.run() }
                            group.addTask { await self.keeper.run() }
                            try await lead(epoch)
                            group.cancelAll()
                        }
                        pause = .zero
                    // Not longer than the other leader's lease lasts.
                    case .waits(let left): pause = min(pause, left + Self.fullWait)
                    }
                }
                failures.reset()
                if isFallback, leaderless.withLock({ $0 }) == nil {
                    await configuration.pace.sleep(pause)
                    return .zero
                }
                return pause
            } catch is CancellationError {
                return nil
            } catch {
                // A worker asks for the leadership too, and may never have had it.
                logger.warning(
                    isLeading
                        ? "the coordinator lost Redis or the leadership; retrying"
                        : "cannot ask Redis for the leadership; retrying",
                    metadata: [LogKey.error: "\(error)"]
                )
                // Another coordinator may succeed; our lease must not keep it out.
                await resign()
                return failures.next(after: error)
            }
        }
        // The task is cancelled by now, which does not affect the Redis client.
        await resign()
        if !isFallback { logger.info("coordinator stopped") }
    }

    /// Releases the leader's lease. If that fails, the lease runs out by itself.
    private func resign() async {
        do {
            try await leadership.resign()
        } catch {
            logger.debug(
                "the leader's lease could not be released and will expire",
                metadata: [LogKey.error: "\(error)"]
            )
        }
    }

    private var isFallback: Bool { configuration.takeoverDelay != nil }

    /// Whether to try to lead. A fallback waits until there has been no leader for a while: a coordinator that restarts
    /// is to become the leader again.
    private func shouldLead() async throws(RedisError) -> Bool {
        guard let delay = configuration.takeoverDelay else { return true }
        let since = try await leadership.hasLeader() ? nil : leaderless.withLock { $0 } ?? .now
        leaderless.withLock { $0 = since }
        return since.map { $0.duration(to: .now) >= delay } ?? false
    }

    /// The settings to lead with: a coordinator publishes its own, and a fallback reads those of the last one. So it
    /// admits jobs that name a webhook, whose outcomes wait for a coordinator.
    private func settings(_ epoch: Int) async throws -> LeaderSettings {
        if isFallback { return try await queue.publishedSettings() }
        let own = LeaderSettings(presets: configuration.presets, webhooks: configuration.webhooks?.rules)
        try await queue.publish(own, name: leadership.holder, epoch: epoch)
        return own
    }

    /// Leads for as long as this process is the leader of the epoch.
    private func lead(_ epoch: Int) async throws {
        logger.info("this coordinator leads", metadata: [LogKey.epoch: "\(epoch)"])
        metrics.set(leads: true)
        defer { metrics.set(leads: false) }
        let settings = try await settings(epoch)
        let intake = Intake(
            queue: queue,
            name: leadership.holder,
            validator: JobValidator(presets: settings.presets, webhooks: settings.webhooks),
            repeats: repeats
        )
        try await intake.replay(epoch: epoch)
        try await countPlaces(intake)
        try await withThrowingTaskGroup(of: Void.self) { group in
            // Beside the rounds: if Redis has many clients, each of its answers takes as long as a part of a round.
            group.addTask { try await self.renewLead(epoch) }
            group.addTask { try await self.watchPlaces(intake) }
            group.addTask { try await self.admit(epoch, intake) }
            let webhooks = AsyncSignal()
            group.addTask { await self.deliverReplies(epoch, webhooks) }
            if let configuration = configuration.webhooks {
                group.addTask { try await self.deliverWebhooks(epoch, configuration, webhooks) }
            }
            // A task ends without an error only if another coordinator leads, or all are cancelled.
            try await group.next()
            group.cancelAll()
        }
    }

    /// Renews the lease until another coordinator leads, or the task is cancelled.
    private func renewLead(_ epoch: Int) async throws {
        while !Task.isCancelled {
            try await Task.sleep(for: configuration.renewInterval)
            guard try await leadership.tryToLead() == epoch else {
                logger.warning("another coordinator leads now", metadata: [LogKey.epoch: "\(epoch)"])
                return
            }
            lastAnswer.withLock { $0 = .now }
            pulse.beat()
        }
    }

    /// Counts the places in workers again and again, until the task is cancelled.
    private func watchPlaces(_ intake: Intake) async throws {
        while !Task.isCancelled {
            try await Task.sleep(for: Self.pollInterval)
            try await countPlaces(intake)
        }
    }

    private func countPlaces(_ intake: Intake) async throws {
        let counted = try await intake.queue.places()
        places.withLock { $0 = counted }
    }

    /// Sends outcomes to the lists of clients until the task is cancelled.
    ///
    /// - Parameter webhooks: signaled when outcomes for webhooks have come.
    private func deliverReplies(_ epoch: Int, _ webhooks: AsyncSignal) async {
        let delivery = ReplyDelivery(
            queue: queue,
            name: leadership.holder,
            epoch: epoch,
            webhooks: webhooks,
            logger: logger
        )
        await delivery.run { await self.outboxListener.wait() }
    }

    /// Sends outcomes to webhooks until the task is cancelled.
    private func deliverWebhooks(
        _ epoch: Int,
        _ configuration: WebhookConfiguration,
        _ changes: AsyncSignal
    ) async throws {
        let delivery = WebhookDelivery(
            queue: queue,
            name: leadership.holder,
            epoch: epoch,
            configuration: configuration,
            sender: try WebhookSender(configuration),
            changes: changes,
            logger: logger
        )
        await delivery.run()
    }

    /// Admits jobs until the task is cancelled. Redis refuses it if another coordinator leads.
    private func admit(_ epoch: Int, _ intake: Intake) async throws {
        var window = AdmissionWindow(limit: configuration.window)
        var staged = StagedJobs()
        var pause = Self.fullWait
        var workers = 0
        var counted: ContinuousClock.Instant?
        while !Task.isCancelled {
            // The window of a fleet that has just started would be too small for its places until the next look. Each
            // look reads all workers, and of a large fleet one may sign on before each round.
            if window.workers != workers, counted.map({ $0.duration(to: .now) >= Self.countInterval }) ?? true {
                (workers, counted) = (window.workers, .now)
                try await countPlaces(intake)
            }
            window.observe(places.withLock { $0 })
            switch try await intake.admit(
                epoch: epoch,
                window: &window,
                staged: &staged,
                chunk: configuration.chunk
            ) {
            case .admitted(let counts):
                pause = Self.fullWait
                metrics.count(
                    admitted: counts.admitted,
                    invalid: counts.invalid,
                    duplicates: counts.duplicates,
                    cancelled: counts.cancelled
                )
                if counts.invalid > 0 {
                    logger.info("invalid jobs became dead letters", metadata: [LogKey.count: "\(counts.invalid)"])
                }
            case .full:
                try await Task.sleep(for: pause)
                pause = min(pause * 2, window.isMoving ? Self.movingWait : Self.longestFullWait)
            case .draining: try await Task.sleep(for: Self.pollInterval)
            case .empty: await listener.wait()
            }
        }
    }
}
