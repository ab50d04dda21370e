internal import Foundation
internal import MegatonPipeline
package import MegatonRedis
internal import NIOCore

/// An outcome that this process has claimed, to send it to a webhook.
struct ClaimedWebhook: Sendable, Equatable {
    /// The member of the queue under which it is claimed: `<host>\0<ms of its due time>\0<ms since which it waits>\0`,
    /// then `<attempts>\0<number>`. While it is claimed, it is due when the lease ends, and then has another member.
    let member: String
    /// `host:port`.
    let host: String
    /// Number of attempts, this one included.
    let attempt: Int
    /// Time for which it has waited.
    let age: Duration
    let url: String
    /// The key of its job.
    let job: JobKey
    /// The same for each attempt, and another for each outcome of the job: a duplicate and a repeated dead letter have
    /// outcomes of their own.
    let idempotencyKey: String
    /// JSON.
    let outcome: Data

    /// - Parameter text: `<url>\0<key of the job>\0<outcome>`. Another form, which no script writes, has an empty URL,
    ///   so that it is refused and does not stay in the queue.
    /// - Returns: nil for a member of another form, which the scripts do not return.
    init?(member: String, age: Duration, text: Data) {
        let fields = member.split(separator: "\0", omittingEmptySubsequences: false)
        guard fields.count == 5, let attempt = Int(fields[3]) else { return nil }
        (self.member, host, self.attempt, self.age) = (member, String(fields[0]), attempt, age)
        let parts = text.split(separator: 0, maxSplits: 2, omittingEmptySubsequences: false)
        let isSound = parts.count == 3
        url = isSound ? String(decoding: parts[0], as: UTF8.self) : ""
        job = JobKey(isSound ? String(decoding: parts[1], as: UTF8.self) : "")
        outcome = isSound ? Data(parts[2]) : Data()
        idempotencyKey = "\(job.text).\(fields[2]).\(fields[4])"
    }
}

/// The queue of webhooks: outcomes on their way to HTTP servers.
///
/// `removeReplies` moves them there from the outbox. A claim is a lease: if its process dies, the webhook is due again
/// when the lease has ended. So each is sent at least once, or dropped and counted.
extension JobQueue {
    /// Limits of a claim; see the script `claimWebhooks`.
    struct WebhookLimits: Sendable {
        /// Maximum number of webhooks.
        var count: Int
        /// Maximum number of requests at a time to hosts that have not answered yet, answer slowly, or whose last
        /// request failed.
        var unproven: Int
        /// Maximum number of requests at a time to one host.
        var perHost: Int
        var lease: Duration
        /// Age from which webhooks are to be dropped.
        var age: Duration
    }

    /// The end of a claim, or of an attempt.
    enum WebhookResult: Sendable, Equatable {
        case delivered
        case dropped
        case retry(after: Duration)
        /// This process has ended the attempt, or could not make it: it does not count.
        case cancelled(after: Duration = .zero)
    }

    /// A webhook that was dropped, as it has waited too long.
    struct ExpiredWebhook: Sendable, Equatable {
        /// `host:port`.
        let host: String
        let attempts: Int
        /// The text of the job's key.
        let job: String
    }

    /// When the circuit breaker of a host opens.
    struct WebhookCircuit: Sendable {
        /// Number of failures in a row.
        var threshold = 3
        /// Time for which it is open then, twice as long after each further failure.
        var opening: Duration = .seconds(10)
        var longest: Duration = .seconds(300)
    }

    /// Claims webhooks that are due.
    ///
    /// - Parameter inFlight: hosts to which this process sends requests, and their numbers.
    /// - Returns: the webhooks, and the time after which there may be more, which is nil if no other waits; nil if
    ///   another process leads.
    func claimWebhooks(
        _ limits: WebhookLimits,
        inFlight: [String: Int],
        name: String,
        epoch: Int
    ) async throws(RedisError) -> (webhooks: [ClaimedWebhook], wait: Duration?)? {
        let reply = try await redis.run(
            QueueScripts.claimWebhooks,
            keys: [
                keys.leader, keys.epoch, keys.webhooks, keys.webhookQueue, keys.webhookHosts, keys.webhookState,
                keys.webhookGood,
            ],
            arguments: [
                .string(name), .int(epoch), .int(limits.count), .int(limits.unproven), .int(limits.perHost),
                .int(limits.lease.wholeMilliseconds), .int(limits.age.wholeMilliseconds),
            ] + inFlight.flatMap { [.string($0.key), .int($0.value)] }
        )
        if case .null = reply { return nil }
        guard let fields = reply.array, fields.count % 3 == 1, let wait = fields[0].int else {
            throw Self.unexpected("claimWebhooks")
        }
        var webhooks: [ClaimedWebhook] = []
        for at in stride(from: 1, to: fields.count, by: 3) {
            guard let member = fields[at].string, let age = fields[at + 1].int, let text = fields[at + 2].buffer,
                let webhook = ClaimedWebhook(
                    member: member,
                    age: .milliseconds(age),
                    text: Data(text.readableBytesView)
                )
            else { throw Self.unexpected("claimWebhooks") }
            webhooks.append(webhook)
        }
        return (webhooks, wait < 0 ? nil : .milliseconds(wait))
    }

    /// Ends a claim; see the script `settleWebhook`.
    ///
    /// - Parameters:
    ///   - hasAnswered: whether the host has answered; nil if it is unknown.
    ///   - isSlow: whether its answer took long.
    /// - Returns: whether the webhook was still claimed under this member.
    func settle(
        _ webhook: ClaimedWebhook,
        _ result: WebhookResult,
        hasAnswered: Bool?,
        isSlow: Bool = false,
        _ circuit: WebhookCircuit
    ) async throws(RedisError) -> Bool {
        let (word, delay): (RedisArgument, Duration) =
            switch result {
            case .delivered: ("delivered", .zero)
            case .dropped: ("dropped", .zero)
            case .retry(let delay): ("retry", delay)
            case .cancelled(let delay): ("cancelled", delay)
            }
        let reply = try await redis.run(
            QueueScripts.settleWebhook,
            keys: [
                keys.webhooks, keys.webhookQueue, keys.webhookHosts, keys.webhookState, keys.stat, keys.webhookGood,
            ],
            arguments: [
                .string(webhook.member), word, .int(delay.wholeMilliseconds),
                .string(hasAnswered.map { $0 ? isSlow ? "s" : "1" : "0" } ?? ""), .int(circuit.threshold),
                .int(circuit.opening.wholeMilliseconds), .int(circuit.longest.wholeMilliseconds),
            ]
        )
        return reply.int == 1
    }

    /// Maximum number of webhooks that one step of the expiry drops.
    private static let expiredAtOnce = 64

    /// Drops webhooks that have waited too long; see the script `expireWebhooks`.
    ///
    /// - Parameters:
    ///   - limit: maximum number of webhooks to examine.
    ///   - place: where the last call has ended; nil to begin.
    /// - Returns: the webhooks that were dropped, and the place for the next call, which is nil if all were examined.
    func expireWebhooks(
        olderThan age: Duration,
        limit: Int,
        after place: String? = nil
    ) async throws(RedisError) -> (expired: [ExpiredWebhook], place: String?) {
        let reply = try await redis.run(
            QueueScripts.expireWebhooks,
            keys: [
                keys.webhooks, keys.webhookQueue, keys.webhookHosts, keys.webhookState, keys.stat, keys.webhookGood,
            ],
            arguments: [
                .int(age.wholeMilliseconds), .int(limit), .int(Self.expiredAtOnce), .string(place ?? ""),
            ]
        )
        guard let fields = reply.array, fields.count % 3 == 1, let last = fields[0].string else {
            throw Self.unexpected("expireWebhooks")
        }
        var expired: [ExpiredWebhook] = []
        for at in stride(from: 1, to: fields.count, by: 3) {
            guard let host = fields[at].string, let attempts = fields[at + 1].int, let job = fields[at + 2].string
            else { throw Self.unexpected("expireWebhooks") }
            expired.append(ExpiredWebhook(host: host, attempts: attempts, job: job))
        }
        return (expired, last.isEmpty ? nil : last)
    }

    /// Number of webhooks that wait or are being sent.
    package func webhookCount() async throws(RedisError) -> Int {
        try await redis.send(["HLEN", .string(keys.webhooks)]).int ?? 0
    }

    /// Bytes of the webhooks, a part of `outcomeBytes`.
    func webhookBytes() async throws(RedisError) -> Int {
        try await redis.send(["HGET", .string(keys.webhookState), ""]).int ?? 0
    }
}
