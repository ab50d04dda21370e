internal import Foundation
internal import Logging
internal import MegatonPipeline
internal import MegatonRedis
import Synchronization

/// Sends outcomes to webhooks, while this process leads.
///
/// Design. The step that ends a job puts its outcome into the outbox, once. The leader moves it from there to a queue
/// of webhooks of its own, in one script, so that no webhook delays the outcomes for lists. From this queue it claims
/// outcomes by a lease, sends them, and deletes each after a status 2xx. If the leader dies in between, even by `kill
/// -9` after the request, the lease ends and the next leader sends the outcome again: at least once.
///
/// The queue has its order by host and due time. A host gets few requests at a time, and one at a time before its first
/// answer and after a failure; after several failures in a row its circuit breaker opens for a while, and its outcomes
/// wait without using attempts. Hosts that fail, answer slowly or have not answered yet have at most half of the places
/// together, and those that fail three quarters of that half; a host that has answered quickly within a day is none of
/// these. An outcome that is too old, was tried too often or is not wanted (410) is dropped, counted, and logged as an
/// error.
struct WebhookDelivery: Sendable {
    let queue: JobQueue
    /// Name of the leader.
    let name: String
    let epoch: Int
    let configuration: WebhookConfiguration
    let sender: WebhookSender
    /// Signaled if the queue of webhooks may have changed.
    let changes: AsyncSignal
    let logger: Logger

    /// Requests in flight, by host.
    private let requests = Requests()

    /// Longest pause between two looks at the queue.
    private static let idlePause: Duration = .seconds(10)
    /// Pause while another process leads: the tasks beside this one notice it soon, and end it.
    private static let supersededPause: Duration = .seconds(1)
    /// Time for which a settlement is repeated if Redis is away; then the lease ends, and the outcome is sent again.
    private static let settleLimit: Duration = .seconds(10)
    private static let warningInterval: Duration = .seconds(60)
    /// Time of a request from which its host counts as slow.
    private static let slowAnswer: Duration = .seconds(2)

    init(
        queue: JobQueue,
        name: String,
        epoch: Int,
        configuration: WebhookConfiguration,
        sender: WebhookSender,
        changes: AsyncSignal,
        logger: Logger
    ) {
        (self.queue, self.name, self.epoch) = (queue, name, epoch)
        (self.configuration, self.sender) = (configuration, sender)
        (self.changes, self.logger) = (changes, logger)
    }

    /// Delivers until the task is cancelled. Requests in flight may then end within the grace period.
    func run() async {
        await withDiscardingTaskGroup { group in
            var failures = Backoff()
            var warned: ContinuousClock.Instant?
            while !Task.isCancelled {
                do throws(RedisError) {
                    guard let found = try await claim() else {
                        await pause(Self.supersededPause)
                        continue
                    }
                    failures.reset()
                    for webhook in found.webhooks {
                        requests.add(webhook.host)
                        group.addTask {
                            await handle(webhook)
                            requests.remove(webhook.host)
                            changes.signal()
                        }
                    }
                    await pause(min(found.wait ?? Self.idlePause, Self.idlePause))
                } catch {
                    if Task.isCancelled { break }
                    if warned.map({ .now - $0 >= Self.warningInterval }) ?? true {
                        warned = .now
                        logger.warning(
                            "webhooks cannot be read from Redis; retrying",
                            metadata: [LogKey.error: "\(error)"]
                        )
                    }
                    try? await Task.sleep(for: failures.next(after: error))  // Throws only if the task is cancelled.
                }
            }
        }
    }

    /// Returns when the queue may have changed, or after the time.
    private func pause(_ time: Duration) async {
        if time <= .zero { return }
        let changes = changes
        await TimeLimit.wait(atMost: time) {
            await changes.wait()
            return true
        }
    }

    /// Claims webhooks for the free places; none if there is no place.
    private func claim() async throws(RedisError) -> (webhooks: [ClaimedWebhook], wait: Duration?)? {
        let inFlight = requests.all
        let free = configuration.concurrency - inFlight.values.reduce(0, +)
        // The end of a request signals.
        if free <= 0 { return ([], nil) }
        let limits = JobQueue.WebhookLimits(
            count: free,
            unproven: max(configuration.concurrency / 2, 1),
            perHost: configuration.hostConcurrency,
            lease: configuration.lease,
            age: configuration.schedule.age
        )
        return try await queue.claimWebhooks(limits, inFlight: inFlight, name: name, epoch: epoch)
    }

    // MARK: - One webhook

    private func handle(_ webhook: ClaimedWebhook) async {
        if webhook.age > configuration.schedule.age {
            return await drop(webhook, configuration.schedule.expiry, hasAnswered: nil)
        }
        let start = ContinuousClock.now
        let answer = await send(webhook)
        // Slow hosts would occupy all places that others need.
        let isSlow = start.duration(to: .now) > Self.slowAnswer
        switch answer {
        case .delivered: await settle(webhook, .delivered, hasAnswered: true, isSlow: isSlow)
        // The next leader makes this attempt.
        case .cancelled: await settle(webhook, .cancelled(), hasAnswered: nil)
        case .postponed(let reason):
            if await settle(webhook, .cancelled(after: configuration.schedule.firstDelay), hasAnswered: nil) {
                logger.warning(
                    "a webhook could not be sent and waits",
                    metadata: Self.metadata(webhook.job.text, webhook.host, webhook.attempt, reason)
                )
            }
        case .refused(let reason, let hasAnswered):
            await drop(webhook, reason, hasAnswered: hasAnswered, isSlow: isSlow)
        case .failed(let reason, let retryAfter, let hasAnswered):
            guard let delay = configuration.schedule.delay(after: webhook.attempt, retryAfter: retryAfter) else {
                let reason = "the last attempt failed: \(reason)"
                return await drop(webhook, reason, hasAnswered: hasAnswered, isSlow: isSlow)
            }
            let isOwn = await settle(webhook, .retry(after: delay), hasAnswered: hasAnswered, isSlow: isSlow)
            if isOwn {
                logger.info(
                    "a webhook failed and will be retried",
                    metadata: Self.metadata(webhook.job.text, webhook.host, webhook.attempt, reason)
                )
            }
        }
    }

    /// Sends the request. If the leader ends meanwhile, the request goes on for the grace period: its outcome would
    /// have to be sent again.
    private func send(_ webhook: ClaimedWebhook) async -> WebhookSender.Answer {
        let (sender, grace) = (sender, configuration.shutdownGrace)
        // Unstructured, so that the cancellation of this task does not end it at once. It is awaited here, and its own
        // time limit bounds it.
        let work = Task { await sender.send(webhook) }
        return await withTaskCancellationHandler {
            await work.value
        } onCancel: {
            // Unstructured, as this handler must not wait. It ends after the grace period.
            Task {
                try? await Task.sleep(for: grace)  // Nothing cancels it.
                work.cancel()
            }
        }
    }

    private func drop(
        _ webhook: ClaimedWebhook,
        _ reason: String,
        hasAnswered: Bool?,
        isSlow: Bool = false
    ) async {
        guard await settle(webhook, .dropped, hasAnswered: hasAnswered, isSlow: isSlow) else { return }
        Self.logDropped(
            job: webhook.job.text,
            host: webhook.host,
            attempts: webhook.attempt,
            reason: reason,
            logger: logger
        )
    }

    /// Logs that an outcome will not reach its webhook.
    static func logDropped(job: String, host: String, attempts: Int, reason: String, logger: Logger) {
        logger.error(
            "an outcome was not delivered to its webhook and was dropped; megaton job shows the state of the job",
            metadata: metadata(job, host, attempts, reason)
        )
    }

    private static func metadata(
        _ job: String,
        _ host: String,
        _ attempts: Int,
        _ reason: String
    ) -> Logger.Metadata {
        [
            LogKey.jobID: "\(job)", LogKey.webhookHost: "\(host)", LogKey.attempts: "\(attempts)",
            LogKey.error: "\(reason)",
        ]
    }

    /// Ends the claim, and repeats that for a while if Redis is away.
    ///
    /// - Returns: whether the webhook was still claimed by this process.
    @discardableResult
    private func settle(
        _ webhook: ClaimedWebhook,
        _ result: JobQueue.WebhookResult,
        hasAnswered: Bool?,
        isSlow: Bool = false
    ) async -> Bool {
        let end = ContinuousClock.now + Self.settleLimit
        var failures = Backoff()
        do throws(RedisError) {
            return try await retrying(until: ContinuousClock.now >= end) { () async throws(RedisError) in
                try await queue.settle(
                    webhook,
                    result,
                    hasAnswered: hasAnswered,
                    isSlow: isSlow,
                    configuration.circuit
                )
            } pauseAfter: { error in
                failures.next(after: error)
            }
        } catch {
            logger.warning(
                "the end of a webhook could not be written to Redis; it is sent again when its lease has ended",
                metadata: Self.metadata(webhook.job.text, webhook.host, webhook.attempt, "\(error)")
            )
            return false
        }
    }

    /// Numbers of requests in flight.
    private final class Requests: Sendable {
        private let counts = Mutex<[String: Int]>([:])

        var all: [String: Int] { counts.withLock { $0 } }

        func add(_ host: String) { counts.withLock { $0[host, default: 0] += 1 } }

        func remove(_ host: String) {
            counts.withLock { counts in
                let left = (counts[host] ?? 0) - 1
                counts[host] = left > 0 ? left : nil
            }
        }
    }
}
