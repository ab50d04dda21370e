internal import Foundation
internal import MegatonPipeline
package import MegatonRedis
internal import NIOCore

/// A job to push.
struct PushedJob: Sendable {
    let json: Data
    /// Number of its sources: more than 1 for a pack.
    var sources = 1
    /// Whether it goes before all jobs that wait in the batch's intake.
    var isUrgent = false
}

extension JobQueue {
    /// Pushes jobs to a batch's intake. Safe to repeat: `first` shows which jobs these are.
    ///
    /// - Parameters:
    ///   - jobs: the jobs, whose numbers are in this order, whichever of them go first.
    ///   - first: number of the first source.
    ///   - idsAreUnique: whether no id so far can occur twice, so that the batch need not remember ids.
    ///   - submitter: name of the only submitter that may push to the batch.
    ///   - owner: the owner of the batch; nil if it is the operator.
    ///   - shards: number of shards in all of which the batch has begun; nil if there is only one, or not yet.
    /// - Returns: number of jobs of the batch that are submitted now.
    /// - Throws: `.batchBehind` if Redis no longer has all jobs before the first; `.batchClosed` if another process has
    ///   closed the batch; `.batchExists` if it is another submitter's.
    func push(
        _ jobs: some Collection<PushedJob>,
        to batch: String,
        first: Int,
        isLast: Bool,
        policy: BatchPolicy,
        idsAreUnique: Bool = false,
        submitter: String,
        owner: String? = nil,
        shards: Int? = nil
    ) async throws(RedisError) -> Int {
        let reply = try await redis.run(
            QueueScripts.submit,
            keys: [
                keys.jobs(batch: batch), keys.batch(batch), keys.batches, keys.intakes, keys.intakeWake, keys.cancelled,
                keys.known(batch), keys.ended,
            ],
            arguments: [
                .string(batch), .int(first), isLast ? "1" : "0", policy.keepsLedger ? "1" : "0",
                policy.deduplicates ? "1" : "0", .int(policy.weight), .string(submitter),
                idsAreUnique ? "1" : "0",
                .string(jobs.allSatisfy { $0.sources == 1 } ? "" : jobs.map { "\($0.sources)" }.joined(separator: ",")),
                shards.map { .int($0) } ?? "", .string(owner ?? ""),
                .string(jobs.contains(where: \.isUrgent) ? String(jobs.map { $0.isUrgent ? "1" : "0" }) : ""),
            ] + jobs.map { .buffer(ByteBuffer(bytes: $0.json)) }
        )
        guard let submitted = reply.int else { throw Self.unexpected("submit") }
        return submitted
    }

    /// Pushes a job to the public list of its priority, as clients in other languages do.
    ///
    /// A push whose reply was lost may have happened: push again only a job with an id or an idempotency key.
    package func push(_ job: Job) async throws(RedisError) {
        try await redis.send(["LPUSH", .string(keys.jobs(job.priority)), .buffer(ByteBuffer(bytes: job.json()))])
    }

    /// Pushes a job to the public list of its priority, unless it names a batch of another owner or one that has ended;
    /// see the script `pushJob`. As for `push(_:)`, a push whose reply was lost may have happened.
    ///
    /// - Parameters:
    ///   - owner: the owner of a batch that this job begins; nil if it is the operator.
    ///   - mayPushToAll: whether the client may push to batches of all owners.
    /// - Throws: `.otherOwner` if the client may not push the job to the batch; `.batchClosed` if the batch has ended.
    package func push(_ job: Job, owner: String?, mayPushToAll: Bool) async throws(RedisError) {
        guard let batch = job.batch else { return try await push(job) }
        try await redis.run(
            QueueScripts.pushJob,
            keys: [keys.jobs(job.priority), keys.batch(batch), keys.ended],
            arguments: [
                .string(batch), .string(owner ?? ""), .buffer(ByteBuffer(bytes: job.json())),
                mayPushToAll ? "1" : "0", job.batchSize == nil ? "0" : "1",
            ]
        )
    }

    /// Cancels a batch. Its running jobs end when their workers renew next, the others when a worker reaches them.
    ///
    /// - Parameter submitter: cancels the batch only if this submitter owns it. Nothing is done, and no error thrown,
    ///   if it is another submitter's batch or does not exist. Nil cancels the batch of any submitter.
    /// - Returns: whether the batch was cancelled.
    /// - Throws: `.noBatch` if there is no batch of this name and no submitter is given.
    @discardableResult
    package func cancel(batch: String, of submitter: String? = nil) async throws(RedisError) -> Bool {
        let intake = keys.jobs(batch: batch)
        var hasMore = false
        repeat {
            // About as long as a call takes, so that other clients have half of the server's time. After a
            // cancellation, the next command ends at once.
            if hasMore { try? await Task.sleep(for: .milliseconds(5)) }
            let dropped = try await redis.run(
                QueueScripts.cancelBatch,
                keys: [
                    intake, keys.batch(batch), keys.cancelled, keys.intakes, keys.known(batch), keys.stat, keys.ended,
                    keys.results(batch),
                ],
                arguments: [.string(batch), .string(submitter ?? "")]
            )
            if dropped.int == -1 { return false }
            hasMore = try await redis.send(["EXISTS", .string(intake)]).int == 1
        } while hasMore
        try await promoteDelayed(of: batch)
        return true
    }

    /// Makes the delayed and held jobs of a cancelled batch ready, one page at a time.
    private func promoteDelayed(of batch: String) async throws(RedisError) {
        try await promote(in: keys.delay, of: batch) { $0 }
        try await promote(in: keys.holding, of: batch) { HoldingEntry($0)?.id }
    }

    private func promote(
        in key: String,
        of batch: String,
        id: (String) -> String?
    ) async throws(RedisError) {
        var cursor = "0"
        repeat {
            let reply = try await redis.send(["ZSCAN", .string(key), .string(cursor), "COUNT", "500"])
            guard let parts = reply.array, parts.count == 2, let next = parts[0].string else {
                throw Self.unexpected("ZSCAN")
            }
            cursor = next
            // Jobs of other batches are left out here, as there may be a million of them. The script checks the batch
            // of each job: a requeued one is in the scope of the batch that it died in, without belonging to it.
            let ids = parts[1].dictionary.keys.compactMap(id).filter { JobKey($0).batch == batch }.sorted()
            if ids.isEmpty { continue }
            try await redis.run(
                QueueScripts.promoteDelayed,
                keys: [keys.delay, keys.meta] + keys.ready + [keys.wake, keys.holding, keys.heldBytes, keys.body],
                arguments: [.string(batch)] + ids.map { .string($0) }
            )
        } while cursor != "0"
    }

    /// Counters of a batch; empty if there is no batch of this name.
    package func batch(_ name: String) async throws(RedisError) -> [String: String] {
        try await redis.send(["HGETALL", .string(keys.batch(name))]).dictionary
    }

    /// Number of jobs in the intake of a batch, which were pushed and not staged; a pack is one.
    func intakeLength(of batch: String) async throws(RedisError) -> Int {
        try await redis.send(["LLEN", .string(keys.jobs(batch: batch))]).int ?? 0
    }

    /// The client that has made a batch over HTTP; nil if the batch is the operator's, or there is none.
    package func owner(ofBatch name: String) async throws(RedisError) -> String? {
        try await redis.send(["HGET", .string(keys.batch(name)), "owner"]).string
    }

    /// The newest batches, newest first.
    ///
    /// - Parameter limit: maximum number of batches.
    package func batches(limit: Int) async throws(RedisError) -> [BatchSummary] {
        let names = (try await redis.send(["ZRANGE", .string(keys.batches), "0", .int(limit - 1), "REV"]).array ?? [])
            .compactMap(\.string)
        let replies = try await redis.pipeline(names.map { ["HGETALL", .string(keys.batch($0))] })
        return try zip(names, replies).map { name, reply throws(RedisError) in
            guard case .error(let text) = reply else {
                return BatchSummary(name: name, counters: BatchCounters(reply.dictionary))
            }
            let error = RedisError(reply: text)
            // One damaged batch does not hide the others.
            guard error.isWrongType else { throw error }
            return BatchSummary(name: name, counters: .none, damagedKey: keys.batch(name))
        }
    }

    /// Closes a batch, so that it ends with the last of its jobs; see the script `closeBatch`.
    ///
    /// - Parameter expected: number of jobs that were pushed in all, if known. The batch then does not end before that
    ///   many jobs have been admitted.
    /// - Returns: whether the batch has ended.
    /// - Throws: `.noBatch` if there is no batch of this name.
    @discardableResult
    package func close(batch: String, expected: Int? = nil) async throws(RedisError) -> Bool {
        let reply = try await redis.run(
            QueueScripts.closeBatch,
            keys: [keys.batch(batch), keys.known(batch), keys.batches, keys.ended],
            arguments: [.string(batch), expected.map { .int($0) } ?? ""]
        )
        return reply.int == 1
    }

    /// Reads a batch's ledger, oldest outcome first; see the script `results`. Safe to repeat.
    ///
    /// - Parameters:
    ///   - number: number of the last outcome that the reader has; 0 for none.
    ///   - digest: SHA-1 of that outcome in hex; empty if unknown.
    ///   - bytes: number of bytes at which the page ends; its last outcome may exceed them.
    ///   - acknowledges: whether the outcomes up to that one are deleted.
    func results(
        of batch: String,
        after number: Int,
        digest: String,
        limit: Int,
        bytes: Int = OutcomePage.usualBytes,
        acknowledges: Bool = true
    ) async throws(RedisError) -> OutcomePage {
        let reply = try await redis.run(
            QueueScripts.results,
            keys: [keys.results(batch), keys.batch(batch), keys.stat],
            arguments: [.int(number), .string(digest), .int(limit), acknowledges ? "1" : "0", .int(bytes)]
        )
        guard let fields = reply.array, fields.count >= 2, let start = fields[1].int,
            let state = fields[0].int.flatMap(OutcomePage.State.init(rawValue:))
        else { throw Self.unexpected("results") }
        let lines = fields.dropFirst(2).compactMap { $0.buffer.map { Data($0.readableBytesView) } }
        return OutcomePage(state: state, start: start, lines: lines)
    }
}
