internal import Foundation
internal import MegatonPipeline
package import MegatonRedis
internal import NIOCore

/// A queue in the control Redis. Each change is one script; reads are one or a few plain commands.
package struct JobQueue: Sendable {
    package let keys: QueueKeys
    package let redis: RedisClient
    // The names of keys are composed at each use. These two scripts run for every job.
    let claimKeys: [String]
    let settleKeys: [String]

    package init(_ redis: RedisClient, keys: QueueKeys) {
        self.redis = redis
        self.keys = keys
        claimKeys = Self.claimKeys(keys)
        settleKeys = [
            keys.lease, keys.body, keys.meta, keys.stat, keys.dead, keys.deadInfo, keys.crashes, keys.isolating,
            keys.ended, keys.replies,
        ]
    }

    // MARK: - Claimed jobs

    /// Settles jobs; see the script `settle`.
    ///
    /// - Parameter completions: at most `maximumBatchSize`.
    /// - Returns: the reply of Redis to each, in order.
    package func settle(_ completions: [JobCompletion], worker: String) async throws(RedisError) -> [SettleResult] {
        if completions.isEmpty { return [] }
        let call = settleCall(completions, worker: worker)
        let reply = try await redis.run(QueueScripts.settle, keys: call.keys, arguments: call.arguments)
        return try Self.results(reply, of: completions)
    }

    /// Settles jobs and claims others, in one round trip.
    ///
    /// - Returns: as of ``settle(_:worker:)``, and the claim. One may fail without the other.
    func settle(
        _ completions: [JobCompletion],
        worker: String,
        claiming request: ClaimRequest
    ) async -> (settled: Result<[SettleResult], RedisError>, claim: Result<Claim, RedisError>) {
        let call = settleCall(completions, worker: worker)
        do throws(RedisError) {
            let replies = try await redis.run(
                QueueScripts.claim,
                after: [QueueScripts.settle.call(keys: call.keys, arguments: call.arguments)],
                calls: [(claimKeys, request.arguments)]
            )
            let (settled, claimed) = (replies.commands[0], replies.calls[0])
            let claim = Result { () throws(RedisError) in
                if case .error(let text) = claimed { throw RedisError(reply: text) }
                return try request.claim(claimed)
            }
            guard case .error(let text) = settled else {
                return (Result { () throws(RedisError) in try Self.results(settled, of: completions) }, claim)
            }
            // Only the other script was loaded: this one was not executed.
            guard text.hasPrefix("NOSCRIPT") else { return (.failure(RedisError(reply: text)), claim) }
            return (await settlement(of: completions, worker: worker), claim)
        } catch {
            return (.failure(error), .failure(error))
        }
    }

    /// As ``settle(_:worker:)``.
    func settlement(of completions: [JobCompletion], worker: String) async -> Result<[SettleResult], RedisError> {
        do throws(RedisError) {
            return .success(try await settle(completions, worker: worker))
        } catch {
            return .failure(error)
        }
    }

    private static func results(
        _ reply: RedisValue,
        of completions: [JobCompletion]
    ) throws(RedisError) -> [SettleResult] {
        guard let results = reply.array, results.count == completions.count else { throw unexpected("settle") }
        return try results.map { result throws(RedisError) in try Self.result(result) }
    }

    /// A call of the script `settle`.
    private func settleCall(
        _ completions: [JobCompletion],
        worker: String
    ) -> (keys: [String], arguments: [RedisArgument]) {
        precondition(completions.count <= Self.maximumBatchSize, "Lua's stack has room for a few thousand values")
        let batches = Array(Set(completions.map(\.job.batch).filter { !$0.isEmpty })).sorted()
        let number = Dictionary(uniqueKeysWithValues: batches.enumerated().map { ($1, $0 + 1) })
        let entries = Array(Set(completions.compactMap { $0.entry?.digest })).sorted()
        let entryNumber = Dictionary(uniqueKeysWithValues: entries.enumerated().map { ($1, $0 + 1) })
        let keys =
            settleKeys
            + batches.flatMap { [self.keys.batch($0), self.keys.results($0), self.keys.known($0)] }
            + entries.map(self.keys.once)
        var arguments: [RedisArgument] = [.string(worker), .int(completions.count), .int(entries.count)]
        for completion in completions {
            arguments += completion.arguments(
                batch: number[completion.job.batch] ?? 0,
                entry: completion.entry.flatMap { entryNumber[$0.digest] } ?? 0
            )
        }
        return (keys, arguments)
    }

    /// Maximum number of completions in one call.
    package static let maximumBatchSize = 128

    /// Delays a job for another attempt; see the script `retry`.
    ///
    /// - Parameter countsAttempt: false if something other than its own failure kept the job from being done.
    func retry(
        _ job: ActiveJob,
        worker: String,
        after delay: Duration,
        countsAttempt: Bool,
        counters: [String: Int]
    ) async throws(RedisError) -> SettleResult {
        let reply = try await redis.run(
            QueueScripts.retry,
            keys: [keys.lease, keys.meta, keys.delay, keys.stat, keys.batch(job.batch), keys.cancelled] + keys.ready
                + [keys.wake, keys.isolating, keys.heldBytes, keys.body],
            arguments: [
                .string(job.key.text), .string(worker), .int(job.attempt), .int(delay.wholeMilliseconds),
                countsAttempt ? "1" : "0",
            ] + Self.pairs(counters)
        )
        return try Self.result(reply)
    }

    /// Holds a job until its host takes another request; see the script `hold`.
    func hold(
        _ job: ActiveJob,
        worker: String,
        for turn: HostTurn,
        counters: [String: Int]
    ) async throws(RedisError) -> SettleResult {
        let reply = try await redis.run(
            QueueScripts.hold,
            keys: [keys.lease, keys.meta, keys.stat, keys.batch(job.batch), keys.cancelled] + keys.ready
                + [
                    keys.wake, keys.isolating, keys.holding, keys.held, keys.pace, keys.heldBytes, keys.body,
                ],
            arguments: [
                .string(job.key.text), .string(worker), .int(job.attempt), .string(turn.host),
                .int(Duration.seconds(turn.wait).wholeMilliseconds), .int(Int(turn.interval * 1_000_000)),
            ] + Self.pairs(counters)
        )
        return try Self.result(reply)
    }

    /// Makes the jobs ready that wait for a host which was given up; see the script `giveUp`.
    func giveUp(_ host: String) async throws(RedisError) {
        try await redis.run(QueueScripts.giveUp, keys: [keys.held, keys.pace], arguments: [.string(host)])
    }

    /// Releases jobs, so that they can be claimed again.
    ///
    /// - Parameter leaves: whether the worker also signs off.
    @discardableResult
    package func release(
        _ jobs: [(id: String, attempt: Int)],
        worker: String,
        leaves: Bool
    ) async throws(RedisError) -> Int {
        let reply = try await redis.run(
            QueueScripts.release,
            keys: [keys.lease, keys.meta] + keys.ready + [keys.wake, keys.workers, keys.workerInfo, keys.isolating],
            arguments: [.string(worker), leaves ? "1" : "0"]
                + jobs.flatMap { [.string($0.id), .int($0.attempt)] }
        )
        return reply.int ?? 0
    }

    /// Renews leases; see the script `renew`.
    ///
    /// - Parameter isChanged: whether the number of jobs or `info` may differ from those of the last renewal, and are
    ///   written again.
    /// - Returns: ids that are lost, ids whose batch was cancelled, ids whose source is quarantined, and the number of
    ///   living workers.
    package func renew(
        _ jobs: [(id: String, attempt: Int)],
        worker: String,
        lease: Duration,
        info: String,
        isChanged: Bool = true,
        timeout: Duration? = nil
    ) async throws(RedisError) -> (lost: [String], cancelled: [String], quarantined: [String], workers: Int) {
        let reply = try await redis.run(
            QueueScripts.renew,
            keys: [
                keys.lease, keys.meta, keys.workers, keys.workerInfo, keys.cancelled, keys.crashes, keys.isolating,
            ],
            arguments: [
                .string(worker), .int(lease.wholeMilliseconds), .int(jobs.count), .string(info), isChanged ? "1" : "0",
            ]
                + jobs.flatMap { [.string($0.id), .int($0.attempt)] },
            timeout: timeout
        )
        guard let fields = reply.array, fields.count == 4, let workers = fields[3].int else {
            throw Self.unexpected("renew")
        }
        let ids = fields.prefix(3).map { ($0.array ?? []).compactMap(\.string) }
        return (ids[0], ids[1], ids[2], workers)
    }

    // MARK: -

    static func result(_ reply: RedisValue) throws(RedisError) -> SettleResult {
        guard let result = reply.string.flatMap(SettleResult.init(rawValue:)) else {
            throw unexpected("settle, retry or hold")
        }
        return result
    }

    static func unexpected(_ script: String) -> RedisError {
        RedisError(.unexpectedReply, "The script \(script) returned a reply of unexpected form.")
    }

    static func pairs(_ counters: [String: Int]) -> [RedisArgument] {
        counters.filter { $0.value != 0 }.flatMap { [.string($0.key), .int($0.value)] }
    }
}

extension JobQueue {
    /// Number of workers that have signed on.
    package func workerCount() async throws(RedisError) -> Int {
        try await redis.send(["ZCARD", .string(keys.workers)]).int ?? 0
    }

    /// Closes the connection.
    package func close() { redis.close() }
}
