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
        /// Whether all jobs that wait are ready, and announced by tokens.
        var isAnnounced = false
        /// Whether the caller is to start a process for suspects.
        var wantsIsolation = false
    }

    /// Claims jobs; see the script `claim`.
    ///
    /// - Parameters:
    ///   - running: jobs of the worker whose work is not done.
    ///   - places: jobs that it can hold.
    ///   - ignoresShare: whether to take also the jobs that it left to other workers and that none of them took.
    ///   - validUntil: time until which the worker holds the leases.
    func claim(
        _ limit: Int,
        running: Int,
        places: Int,
        ignoresShare: Bool,
        suspects: SuspectHandling,
        worker: String,
        lease: Duration,
        validUntil: ContinuousClock.Instant
    ) async throws(RedisError) -> Claim {
        let reply = try await redis.run(
            QueueScripts.claim,
            keys: claimKeys,
            arguments: [
                .string(worker), .int(lease.wholeMilliseconds), .int(limit), .int(running), .int(places),
                ignoresShare ? "1" : "0", .string(suspects.rawValue),
            ]
        )
        guard let parts = reply.array, parts.count >= 3, let left = parts[0].int else { throw Self.unexpected("claim") }
        var claim = Claim(
            left: left,
            isQueueEmpty: parts[2].int == 1,
            isAnnounced: parts[2].int == 2,
            wantsIsolation: parts[1].int == 1
        )
        for entry in parts.dropFirst(3) {
            guard let job = ActiveJob(entry, validUntil: validUntil) else { throw Self.unexpected("claim") }
            claim.jobs.append(job)
        }
        return claim
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
            limit,
            running: 0,
            places: limit,
            ignoresShare: false,
            suspects: .one,
            worker: worker,
            lease: lease,
            validUntil: .now + lease
        ).jobs
    }
}
