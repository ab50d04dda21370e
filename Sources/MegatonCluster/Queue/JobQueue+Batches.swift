internal import Foundation
internal import MegatonPipeline
package import MegatonRedis
internal import NIOCore

extension JobQueue {
    /// Pushes jobs to a batch's intake. Safe to repeat: `first` shows which jobs these are.
    ///
    /// - Parameters:
    ///   - idsAreUnique: whether no id so far can occur twice, so that the batch need not remember ids.
    ///   - submitter: name of the only submitter that may push to the batch.
    /// - Returns: number of jobs of the batch that are submitted now.
    func submit(
        _ jobs: [Data],
        to batch: String,
        first: Int,
        isLast: Bool,
        policy: BatchPolicy,
        idsAreUnique: Bool = false,
        submitter: String
    ) async throws(RedisError) -> Int {
        let reply = try await redis.run(
            QueueScripts.submit,
            keys: [
                keys.jobs(batch: batch), keys.batch(batch), keys.batches, keys.intakes, keys.intakeWake, keys.cancelled,
                keys.known(batch),
            ],
            arguments: [
                .string(batch), .int(first), isLast ? "1" : "0", policy.keepsLedger ? "1" : "0",
                policy.deduplicates ? "1" : "0", .int(policy.weight), .string(submitter),
                idsAreUnique ? "1" : "0",
            ] + jobs.map { .buffer(ByteBuffer(bytes: $0)) }
        )
        guard let submitted = reply.int else { throw Self.unexpected("submit") }
        return submitted
    }

    /// Cancels a batch. Its running jobs end when their workers renew next, the others when a worker reaches them.
    ///
    /// - Parameter submitter: cancels the batch only if this submitter owns it. Nothing is done, and no error thrown,
    ///   if it is another submitter's batch or does not exist. Nil cancels the batch of any submitter.
    /// - Returns: whether the batch was cancelled.
    /// - Throws: `.noBatch` if there is no batch of this name and no submitter is given.
    @discardableResult
    package func cancel(batch: String, of submitter: String? = nil) async throws(RedisError) -> Bool {
        let dropped = try await redis.run(
            QueueScripts.cancelBatch,
            keys: [
                keys.jobs(batch: batch), keys.batch(batch), keys.cancelled, keys.intakes, keys.known(batch), keys.stat,
            ],
            arguments: [.string(batch), .string(submitter ?? "")]
        )
        if dropped.int == -1 { return false }
        try await promoteDelayed(of: batch)
        return true
    }

    /// Makes the delayed jobs of a cancelled batch ready, one page at a time.
    private func promoteDelayed(of batch: String) async throws(RedisError) {
        var cursor = "0"
        repeat {
            let reply = try await redis.send(["ZSCAN", .string(keys.delay), .string(cursor), "COUNT", "500"])
            guard let parts = reply.array, parts.count == 2, let next = parts[0].string else {
                throw Self.unexpected("ZSCAN")
            }
            cursor = next
            let ids = parts[1].dictionary.keys.sorted()
            if ids.isEmpty { continue }
            // The script checks the batch of each job, and leaves jobs of other batches alone.
            try await redis.run(
                QueueScripts.promoteDelayed,
                keys: [keys.delay, keys.meta] + keys.ready + [keys.wake],
                arguments: [.string(batch)] + ids.map { .string($0) }
            )
        } while cursor != "0"
    }

    /// Counters of a batch; empty if there is no batch of this name.
    func batch(_ name: String) async throws(RedisError) -> [String: String] {
        try await redis.send(["HGETALL", .string(keys.batch(name))]).dictionary
    }

    /// The newest batches, newest first.
    ///
    /// - Parameter limit: maximum number of batches.
    package func batches(limit: Int) async throws(RedisError) -> [BatchSummary] {
        let names = (try await redis.send(["ZRANGE", .string(keys.batches), "0", .int(limit - 1), "REV"]).array ?? [])
            .compactMap(\.string)
        let replies = try await redis.pipeline(names.map { ["HGETALL", .string(keys.batch($0))] })
        return try zip(names, replies).map { name, reply throws(RedisError) in
            if case .error(let text) = reply { throw RedisError(reply: text) }
            return BatchSummary(name: name, counters: BatchCounters(reply.dictionary))
        }
    }

    /// Forgets batches that ended long ago, among a number of batches drawn at random, so that batches that cannot be
    /// forgotten yet do not hide the others.
    ///
    /// - Returns: number of batches that were forgotten.
    @discardableResult
    func forgetBatches(endedFor age: Duration, limit: Int) async throws(RedisError) -> Int {
        let names = (try await redis.send(["ZRANDMEMBER", .string(keys.batches), .int(limit)]).array ?? [])
            .compactMap(\.string)
        if names.isEmpty { return 0 }
        let replies = try await redis.run(
            QueueScripts.forgetBatch,
            calls: names.map { name in
                (
                    [
                        keys.batch(name), keys.results(name), keys.known(name), keys.batches, keys.cancelled,
                        keys.jobs(batch: name), keys.formerKnown(name),
                    ],
                    [.string(name), .int(age.wholeMilliseconds)]
                )
            }
        )
        for case .error(let text) in replies { throw RedisError(reply: text) }
        return replies.count { $0.int == 1 }
    }

    /// Reads a batch's ledger, oldest outcome first, and deletes the outcomes that its reader has. Safe to repeat.
    ///
    /// - Parameter kept: number of outcomes that the reader has in all.
    func results(of batch: String, kept: Int, limit: Int) async throws(RedisError) -> [Data] {
        let reply = try await redis.run(
            QueueScripts.results,
            keys: [keys.results(batch), keys.batch(batch)],
            arguments: [.int(kept), .int(limit)]
        )
        return (reply.array ?? []).compactMap { $0.buffer.map { Data($0.readableBytesView) } }
    }
}
