internal import Logging
internal import MegatonRedis

/// Deletes ended batches, outcomes and dead letters whose time is over, or for which there is no room, webhooks that
/// have waited too long, and the request counts of rare hosts, until its task is cancelled.
///
/// It works in small steps beside the leader's rounds, and repeats them while there is more to delete, so that it keeps
/// up with any rate and no job waits for it.
struct RetentionKeeper: Sendable {
    let queue: JobQueue
    /// How long a batch is remembered after its end.
    var batches: Duration
    var retention: Retention
    /// When a webhook is dropped, also without a key to send it: it would count in the limit on outcomes for ever.
    var webhooks = WebhookSchedule()
    /// Whether to prefer the settings of the last leader: a worker that takes over has no options for this, and must
    /// not delete what a coordinator keeps.
    var isFallback = false
    let logger: Logger

    /// Kinds of entries, each of which is deleted by itself, so that an error of one keeps no other in Redis.
    enum Kind: String, Sendable {
        /// None is deleted: without its settings the keeper must not begin.
        case settings = "all"
        case deadLetters = "dead letters"
        case batches = "ended batches"
        case outcomes
        case webhooks
        case hosts = "request counts"
    }

    /// Result of a step.
    struct Step: Sendable {
        /// The offset of the next step.
        var offset: Int
        /// Errors of the kinds that could not be deleted.
        var errors: [Kind: RedisError] = [:]
    }

    private static let interval: Duration = .seconds(1)
    private static let hostsInterval: Duration = .seconds(60)
    /// Interval at which the settings are read again.
    private static let settingsInterval: Duration = .seconds(10)
    private static let webhooksInterval: Duration = .seconds(60)
    private static let webhooksAtOnce = 512
    /// Pages of webhooks that one step examines; the next step continues.
    private static let webhookPages = 64
    /// Number of hosts whose requests are counted individually.
    private static let hostsKept = 10_000
    private static let lettersAtOnce = 256
    private static let batchesAtOnce = 100
    /// Pages of batches that one step looks through if all of them have an unfinished job; those behind may have none.
    private static let pagesInUse = 20
    private static let ledgersAtOnce = 16
    /// Batches whose outcomes one step looks for: there may be a million, and none of them may have any.
    static let ledgersInAStep = 1024

    func run() async {
        var keeper: (RetentionKeeper, Retention.Limits)?
        var offset = 0
        var failures = RetentionFailures(logger: logger)
        var (hostsDue, settingsDue, webhooksDue) = (ContinuousClock.now, ContinuousClock.now, ContinuousClock.now)
        var webhook: String?
        await repeating {
            if ContinuousClock.now >= hostsDue || failures.contains(.hosts) {
                hostsDue = .now + Self.hostsInterval
                let error = await attempt { () async throws(RedisError) in
                    try await queue.forgetRareHosts(above: Self.hostsKept)
                }
                if Task.isCancelled { return nil }
                failures.note(error, of: .hosts)
            }
            if ContinuousClock.now >= webhooksDue || webhook != nil || failures.contains(.webhooks) {
                webhooksDue = .now + Self.webhooksInterval
                let error = await attempt { () async throws(RedisError) in
                    webhook = try await expireWebhooks(from: webhook)
                }
                if Task.isCancelled { return nil }
                failures.note(error, of: .webhooks)
            }
            // Operators change maxmemory while a coordinator leads: the limits of a moment must not last.
            if ContinuousClock.now >= settingsDue || failures.contains(.settings) {
                settingsDue = .now + Self.settingsInterval
                let error = await attempt { () async throws(RedisError) in keeper = try await configured() }
                if Task.isCancelled { return nil }
                failures.note(error, of: .settings)
            }
            if let (keeper, limits) = keeper {
                let step = await keeper.tidy(limits, offset: offset)
                offset = step.offset
                if Task.isCancelled { return nil }
                for kind in [Kind.deadLetters, .batches, .outcomes] { failures.note(step.errors[kind], of: kind) }
            }
            return Self.interval
        }
    }

    /// Nothing is begun once the task is cancelled: while Redis does not answer, each kind would wait for its time-outs
    /// before the coordinator ends.
    ///
    /// - Returns: the error of the body; nil if it succeeded, or if the task is cancelled.
    private func attempt(_ body: () async throws(RedisError) -> Void) async -> RedisError? {
        if Task.isCancelled { return nil }
        do throws(RedisError) {
            try await body()
            return nil
        } catch {
            return Task.isCancelled ? nil : error
        }
    }

    /// The keeper with its final settings.
    func configured() async throws(RedisError) -> (RetentionKeeper, Retention.Limits) {
        var keeper = self
        if isFallback, let published = try await queue.publishedRetention() {
            (keeper.batches, keeper.retention) = published
        }
        return (keeper, keeper.retention.limits(memory: try await memory()))
    }

    /// `maxmemory` of Redis; 0 if it has none or may not be asked for it.
    private func memory() async throws(RedisError) -> Int {
        do throws(RedisError) {
            return InfoReply.number("maxmemory", in: try await queue.redis.send(["INFO", "memory"]).string ?? "")
        } catch {
            guard error.isCommandRefused else { throw error }
            return 0
        }
    }

    /// Deletes all dead letters, batches and outcomes that are due.
    ///
    /// - Parameter offset: number of batches whose outcomes the last step has looked for.
    @discardableResult
    func tidy(_ limits: Retention.Limits, offset: Int = 0) async -> Step {
        var step = Step(offset: offset)
        step.errors[.deadLetters] = await attempt { () async throws(RedisError) in
            try await expireDeadLetters(limits)
        }
        step.errors[.batches] = await attempt { () async throws(RedisError) in try await forgetBatches() }
        step.errors[.outcomes] = await attempt { () async throws(RedisError) in
            step.offset = try await makeRoom(limits.outcomes, from: offset)
        }
        return step
    }

    private func expireDeadLetters(_ limits: Retention.Limits) async throws(RedisError) {
        var letters = 0
        repeat {
            letters = try await queue.expireDeadLetters(
                olderThan: retention.deadLetters,
                limits: limits,
                limit: Self.lettersAtOnce,
                batches: batches
            )
        } while letters == Self.lettersAtOnce && !Task.isCancelled
    }

    /// Drops webhooks that have waited too long, and logs each.
    ///
    /// - Parameter start: where the last step has ended; nil to begin.
    /// - Returns: where the next step continues; nil if all were examined.
    func expireWebhooks(from start: String? = nil) async throws(RedisError) -> String? {
        var place = start
        for _ in 0..<Self.webhookPages {
            let page = try await queue.expireWebhooks(olderThan: webhooks.age, limit: Self.webhooksAtOnce, after: place)
            for webhook in page.expired {
                WebhookDelivery.logDropped(
                    job: webhook.job,
                    host: webhook.host,
                    attempts: webhook.attempts,
                    reason: webhooks.expiry,
                    logger: logger
                )
            }
            place = page.place
            if place == nil || Task.isCancelled { break }
        }
        return place
    }

    private func forgetBatches() async throws(RedisError) {
        var (hasMore, pagesInUse) = (true, 0)
        while hasMore && pagesInUse < Self.pagesInUse && !Task.isCancelled {
            let page = try await queue.forgetBatches(endedFor: batches, limit: Self.batchesAtOnce)
            hasMore = page.hasMore
            pagesInUse = page.forgotten > 0 ? 0 : pagesInUse + 1
        }
    }

    /// Deletes outcomes of ended batches if those of all batches take more than seven eighths of their limit, so that
    /// there is room for new ones.
    ///
    /// - Returns: the offset at which the next step continues.
    private func makeRoom(_ limit: Int, from start: Int) async throws(RedisError) -> Int {
        var excess = try await queue.outcomeBytes() - (limit - limit / 8)
        if excess <= 0 { return 0 }
        var (offset, hasMore, freed) = (start, true, 0)
        while excess > 0 && hasMore && offset < start + Self.ledgersInAStep && !Task.isCancelled {
            let page = try await queue.dropOutcomes(offset: offset, limit: Self.ledgersAtOnce)
            excess -= page.freed
            freed += page.freed
            offset += Self.ledgersAtOnce
            hasMore = page.hasMore
        }
        if freed > 0 {
            logger.warning(
                "outcomes of ended batches that no reader had received were deleted to make room",
                metadata: [LogKey.bytes: "\(freed)"]
            )
        }
        return excess > 0 && hasMore ? offset : 0
    }
}

/// Logs errors of the retention that last: one warning for each kind until it succeeds again, and not for a failover.
struct RetentionFailures: Sendable {
    /// Number of failures in a row before the warning.
    static let limit = 3

    private var counts: [RetentionKeeper.Kind: Int] = [:]
    private let logger: Logger

    init(logger: Logger) { self.logger = logger }

    /// Whether the last attempt of a kind failed.
    func contains(_ kind: RetentionKeeper.Kind) -> Bool { counts[kind] != nil }

    /// - Parameter error: nil if the kind succeeded.
    mutating func note(_ error: RedisError?, of kind: RetentionKeeper.Kind) {
        guard let error else {
            if counts.removeValue(forKey: kind) ?? 0 >= Self.limit {
                logger.info("old entries of Redis can be deleted again", metadata: [LogKey.entries: "\(kind.rawValue)"])
            }
            return
        }
        let count = counts[kind, default: 0] + 1
        counts[kind] = count
        logger.log(
            level: count == Self.limit ? .warning : .debug,
            "old entries of Redis cannot be deleted and fill it; retrying. Remove the cause that the error names",
            metadata: [LogKey.entries: "\(kind.rawValue)", LogKey.error: "\(error)"]
        )
    }
}
