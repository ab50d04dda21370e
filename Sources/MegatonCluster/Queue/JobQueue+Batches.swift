internal import Foundation
internal import MegatonPipeline
public import MegatonRedis
internal import NIOCore

extension JobQueue {
    /// Pushes jobs to a batch's intake. Safe to repeat: `first` says which jobs these are.
    ///
    /// - Parameters:
    ///   - idsAreUnique: no job so far has an id that anybody else gave: the batch need not remember them.
    ///   - submitter: who alone may submit to the batch.
    /// - Returns: how many jobs of the batch are submitted now.
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
                keys.seen(batch),
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

    /// Stops a batch. Its running jobs end when their workers renew next, the others when a worker comes to them.
    ///
    /// - Throws: `.server` with `NOBATCH` where there is none of this name.
    public func cancel(batch: String) async throws(RedisError) {
        try await redis.run(
            QueueScripts.cancelBatch,
            keys: [
                keys.jobs(batch: batch), keys.batch(batch), keys.cancelled, keys.intakes, keys.seen(batch), keys.stat,
            ],
            arguments: [.string(batch)]
        )
        try await hasten(batch)
    }

    /// Makes the delayed jobs of a cancelled batch ready, a page at a time.
    private func hasten(_ batch: String) async throws(RedisError) {
        var cursor = "0"
        repeat {
            let reply = try await redis.send(["ZSCAN", .string(keys.delay), .string(cursor), "COUNT", "500"])
            guard let parts = reply.array, parts.count == 2, let next = parts[0].string else {
                throw Self.unexpected("ZSCAN")
            }
            cursor = next
            let ids = parts[1].dictionary.keys.sorted()
            if ids.isEmpty { continue }
            // The script looks whose they are: one that is not of the batch is left alone.
            try await redis.run(
                QueueScripts.hasten,
                keys: [keys.delay, keys.meta] + keys.ready + [keys.wake],
                arguments: [.string(batch)] + ids.map { .string($0) }
            )
        } while cursor != "0"
    }

    /// The counters of a batch; empty where there is none.
    func batch(_ name: String) async throws(RedisError) -> [String: String] {
        try await redis.send(["HGETALL", .string(keys.batch(name))]).dictionary
    }

    /// The newest batches, newest first.
    ///
    /// - Parameter limit: how many at the most.
    public func batches(limit: Int) async throws(RedisError) -> [BatchSummary] {
        let names = (try await redis.send(["ZRANGE", .string(keys.batches), "0", .int(limit - 1), "REV"]).array ?? [])
            .compactMap(\.string)
        let replies = try await redis.pipeline(names.map { ["HGETALL", .string(keys.batch($0))] })
        return try zip(names, replies).map { name, reply throws(RedisError) in
            if case .error(let text) = reply { throw RedisError(reply: text) }
            return BatchSummary(name: name, counters: BatchCounters(reply.dictionary))
        }
    }

    /// Forgets batches that ended long ago, of so many that are drawn at random: those that cannot be forgotten yet do
    /// not keep the others.
    ///
    /// - Returns: how many.
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
                        keys.batch(name), keys.results(name), keys.seen(name), keys.batches, keys.cancelled,
                        keys.jobs(batch: name), keys.formerSeen(name),
                    ],
                    [.string(name), .int(age.wholeMilliseconds)]
                )
            }
        )
        for case .error(let text) in replies { throw RedisError(reply: text) }
        return replies.count { $0.int == 1 }
    }

    /// Reads a batch's ledger, oldest first, and forgets what its reader has. Safe to repeat.
    ///
    /// - Parameter kept: how many outcomes the reader has in all.
    func results(of batch: String, kept: Int, limit: Int) async throws(RedisError) -> [Data] {
        let reply = try await redis.run(
            QueueScripts.results,
            keys: [keys.results(batch), keys.batch(batch)],
            arguments: [.int(kept), .int(limit)]
        )
        return (reply.array ?? []).compactMap { $0.buffer.map { Data($0.readableBytesView) } }
    }
}
