internal import Foundation
internal import MegatonPipeline
package import MegatonRedis
internal import NIOCore

extension JobQueue {
    /// Handling of jobs whose source is suspected of killing processes.
    enum SuspectHandling: String {
        /// They run in another process; the caller does nothing for them.
        case none
        /// They run in another process, which the caller starts if the claim asks for it.
        case ask
        /// The caller runs one of them at a time, among its other jobs.
        case one
        /// The caller runs them, and nothing else.
        case only
    }

    /// The reply to a claim.
    struct Claim {
        var jobs: [ActiveJob] = []
        /// Ready jobs that were left to other workers although the caller had places for them.
        var left = 0
        /// Whether the queue has only running jobs now, so that the next one is announced by a token.
        var isQueueEmpty = false
        /// Whether few jobs wait, and all of them are ready and announced by tokens.
        var isAnnounced = false
        /// Whether the caller is to start a process for suspects.
        var wantsIsolation = false
        /// The time at which the caller sent it.
        let sent: ContinuousClock.Instant
    }

    /// A call of the script `claim`.
    struct ClaimRequest: Sendable {
        /// Maximum number of jobs.
        let limit: Int
        /// Jobs of the worker whose work is not done.
        let running: Int
        /// Jobs that it can hold.
        let places: Int
        /// Whether to take also the jobs that it left to other workers and that none of them took.
        let ignoresShare: Bool
        let suspects: SuspectHandling
        let worker: String
        let lease: Duration
        let sent: ContinuousClock.Instant
        /// Time until which the worker holds the leases.
        let validUntil: ContinuousClock.Instant

        var arguments: [RedisArgument] {
            [
                .string(worker), .int(lease.wholeMilliseconds), .int(limit), .int(running), .int(places),
                ignoresShare ? "1" : "0", .string(suspects.rawValue),
            ]
        }

        /// Reads the reply.
        func claim(_ reply: RedisValue) throws(RedisError) -> Claim {
            guard let parts = reply.array, parts.count >= 3, let left = parts[0].int else {
                throw JobQueue.unexpected("claim")
            }
            var claim = Claim(
                left: left,
                isQueueEmpty: parts[2].int == 1,
                isAnnounced: parts[2].int == 2,
                wantsIsolation: parts[1].int == 1,
                sent: sent
            )
            for entry in parts.dropFirst(3) {
                guard let job = ActiveJob(entry, validUntil: validUntil) else { throw JobQueue.unexpected("claim") }
                claim.jobs.append(job)
            }
            return claim
        }
    }

    /// Claims jobs; see the script `claim`.
    func claim(_ request: ClaimRequest) async throws(RedisError) -> Claim {
        try request.claim(try await redis.run(QueueScripts.claim, keys: claimKeys, arguments: request.arguments))
    }

    /// The keys of the script `claim`.
    static func claimKeys(_ keys: QueueKeys) -> [String] {
        keys.ready + [
            keys.lease, keys.delay, keys.body, keys.meta, keys.control, keys.cancelled, keys.workers, keys.workerInfo,
            keys.crashes, keys.suspects, keys.isolating, keys.places, keys.holding, keys.held, keys.pace,
            keys.heldBytes, keys.credit, keys.wake, keys.givenUp,
        ]
    }

    /// Wakes another worker, if one sleeps.
    ///
    /// - Parameter closing: whether the caller has just closed a connection that waited for a token. Redis may not have
    ///   noticed that yet and give it the first one; the second is for the other worker.
    func passTokenOn(closing: Bool = false) async throws(RedisError) {
        let wake = RedisArgument.string(keys.wake)
        let tokens: RedisCommand = closing ? ["LPUSH", wake, "1", "1"] : ["LPUSH", wake, "1"]
        let replies = try await redis.pipeline([tokens, ["LTRIM", wake, "0", "255"]])
        for case .error(let text) in replies { throw RedisError(reply: text) }
    }

    /// Claims jobs for a worker that has `limit` places and holds no jobs.
    package func claim(_ limit: Int, worker: String, lease: Duration) async throws(RedisError) -> [ActiveJob] {
        try await claim(
            ClaimRequest(
                limit: limit,
                running: 0,
                places: limit,
                ignoresShare: false,
                suspects: .one,
                worker: worker,
                lease: lease,
                sent: .now,
                validUntil: .now + lease
            )
        ).jobs
    }
}
