internal import Foundation
internal import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

extension JobQueue {
    /// Who runs jobs whose source is suspected to kill processes.
    enum SuspectHandling: String {
        /// Another process; nothing is asked of the caller.
        case none
        /// Another process, which the caller starts if it is asked to.
        case ask
        /// The caller, one of them among its other jobs.
        case one
        /// The caller, which runs nothing else.
        case only
    }

    /// The reply to a claim.
    struct Claim {
        var jobs: [ClaimedJob] = []
        /// Ready jobs that were left to other workers, though the caller had places for them.
        var left = 0
        /// Whether the caller is to start a process for suspects.
        var wantsIsolation = false
    }

    /// Takes jobs; see the script.
    ///
    /// - Parameters:
    ///   - running: jobs that the worker has in hand already.
    ///   - places: jobs that it can have in hand.
    ///   - ignoresShare: also takes the jobs that it left to other workers and that none of them took.
    func take(
        _ limit: Int,
        running: Int,
        places: Int,
        ignoresShare: Bool,
        suspects: SuspectHandling,
        worker: String,
        lease: Duration
    ) async throws(RedisError) -> Claim {
        let reply = try await redis.run(
            QueueScripts.claim,
            keys: keys.ready + [
                keys.lease, keys.delay, keys.body, keys.meta, keys.control, keys.cancelled, keys.workers,
                keys.workerInfo, keys.crashes, keys.suspects, keys.isolating, keys.places,
            ],
            arguments: [
                .string(worker), .int(lease.wholeMilliseconds), .int(limit), .int(running), .int(places),
                ignoresShare ? "1" : "0", .string(suspects.rawValue),
            ]
        )
        guard let parts = reply.array, parts.count >= 2, let left = parts[0].int else { throw Self.unexpected("claim") }
        var claim = Claim(left: left, wantsIsolation: parts[1].int == 1)
        for entry in parts.dropFirst(2) {
            guard let fields = entry.array, fields.count == 9, let id = fields[0].string,
                let attempt = fields[1].int, let stalls = fields[2].int, let json = fields[3].buffer
            else { throw Self.unexpected("claim") }
            claim.jobs.append(
                ClaimedJob(
                    key: JobKey(id),
                    attempt: attempt,
                    free: fields[6].int ?? 0,
                    stalls: stalls,
                    deaths: fields[7].int ?? 0,
                    excessSize: fields[8].int ?? 0,
                    json: Data(json.readableBytesView),
                    batch: fields[4].string ?? "",
                    isCancelled: fields[5].string == "1"
                )
            )
        }
        return claim
    }

    /// Takes jobs for a worker that has as many places as it asks for, and none in hand.
    func claim(_ limit: Int, worker: String, lease: Duration) async throws(RedisError) -> [ClaimedJob] {
        try await take(
            limit,
            running: 0,
            places: limit,
            ignoresShare: false,
            suspects: .one,
            worker: worker,
            lease: lease
        ).jobs
    }
}
