internal import Foundation
internal import MegatonPipeline
public import MegatonRedis
internal import NIOCore

/// A queue in the control Redis. What changes it is a script each; what only looks is a command or a few.
public struct JobQueue: Sendable {
    public let keys: QueueKeys
    let redis: RedisClient

    public init(_ redis: RedisClient, keys: QueueKeys) {
        self.redis = redis
        self.keys = keys
    }

    // MARK: - Working

    /// Takes jobs; see the script.
    ///
    /// - Parameter running: what the worker has in hand already.
    func claim(
        _ limit: Int,
        running: Int = 0,
        worker: String,
        lease: Duration
    ) async throws(RedisError) -> [ClaimedJob] {
        let reply = try await redis.run(
            QueueScripts.claim,
            keys: keys.ready + [
                keys.lease, keys.delay, keys.body, keys.meta, keys.control, keys.cancelled, keys.workers,
            ],
            arguments: [
                .string(worker), .int(lease.wholeMilliseconds), .int(limit), .int(running),
            ]
        )
        return try (reply.array ?? []).map { entry throws(RedisError) in
            guard let fields = entry.array, fields.count == 7, let id = fields[0].string,
                let attempt = fields[1].int, let stalls = fields[2].int, let json = fields[3].buffer
            else { throw Self.unexpected("claim") }
            return ClaimedJob(
                id: id,
                attempt: attempt,
                free: fields[6].int ?? 0,
                stalls: stalls,
                json: Data(json.readableBytesView),
                batch: fields[4].string ?? "",
                isCancelled: fields[5].string == "1"
            )
        }
    }

    /// Ends jobs; see the script.
    ///
    /// - Parameter ends: no more than `maximumEnds`.
    /// - Returns: what Redis says of each, in order.
    func settle(_ ends: [JobEnd], worker: String) async throws(RedisError) -> [Verdict] {
        try await settle(ends.map(EncodedEnd.init), worker: worker)
    }

    /// The same for what is encoded already.
    func settle(_ ends: [EncodedEnd], worker: String) async throws(RedisError) -> [Verdict] {
        if ends.isEmpty { return [] }
        precondition(ends.count <= Self.maximumEnds, "Lua's stack has room for some thousands")
        let batches = Array(Set(ends.map(\.job.batch).filter { !$0.isEmpty })).sorted()
        let number = Dictionary(uniqueKeysWithValues: batches.enumerated().map { ($1, $0 + 1) })
        let reply = try await redis.run(
            QueueScripts.settle,
            keys: [keys.lease, keys.body, keys.meta, keys.stat, keys.dead, keys.deadInfo]
                + batches.flatMap { [keys.batch($0), keys.results($0), keys.seen($0)] },
            arguments: ends.reduce(into: [.string(worker), .int(ends.count)]) { arguments, end in
                arguments += end.arguments(batch: number[end.job.batch] ?? 0)
            }
        )
        guard let verdicts = reply.array, verdicts.count == ends.count else { throw Self.unexpected("settle") }
        return try verdicts.map { verdict throws(RedisError) in try Self.verdict(verdict) }
    }

    /// Ends that are told in one call.
    static let maximumEnds = 128

    /// Puts a job off.
    ///
    /// - Parameter countsAttempt: false where it was not the job's fault that it was not done.
    func retry(
        _ job: ClaimedJob,
        worker: String,
        after delay: Duration,
        countsAttempt: Bool,
        counters: [String: Int]
    ) async throws(RedisError) -> Verdict {
        let reply = try await redis.run(
            QueueScripts.retry,
            keys: [keys.lease, keys.meta, keys.delay, keys.stat, keys.batch(job.batch), keys.cancelled] + keys.ready
                + [keys.wake],
            arguments: [
                .string(job.id), .string(worker), .int(job.attempt), .int(delay.wholeMilliseconds),
                countsAttempt ? "1" : "0",
            ] + Self.pairs(counters)
        )
        return try Self.verdict(reply)
    }

    /// Gives jobs back.
    ///
    /// - Parameter leaves: the worker signs off with it.
    @discardableResult
    func release(
        _ jobs: [(id: String, attempt: Int)],
        worker: String,
        leaves: Bool
    ) async throws(RedisError) -> Int {
        let reply = try await redis.run(
            QueueScripts.release,
            keys: [keys.lease, keys.meta] + keys.ready + [keys.wake, keys.workers, keys.workerInfo],
            arguments: [.string(worker), leaves ? "1" : "0"]
                + jobs.flatMap { [.string($0.id), .int($0.attempt)] }
        )
        return reply.int ?? 0
    }

    /// Prolongs leases; see the script.
    ///
    /// - Returns: ids that are lost, and ids whose batch was cancelled.
    func renew(
        _ jobs: [(id: String, attempt: Int)],
        worker: String,
        lease: Duration,
        info: String,
        timeout: Duration? = nil
    ) async throws(RedisError) -> (lost: [String], cancelled: [String]) {
        let reply = try await redis.run(
            QueueScripts.renew,
            keys: [keys.lease, keys.meta, keys.workers, keys.workerInfo, keys.cancelled],
            arguments: [.string(worker), .int(lease.wholeMilliseconds), .int(jobs.count), .string(info)]
                + jobs.flatMap { [.string($0.id), .int($0.attempt)] },
            timeout: timeout
        )
        guard let fields = reply.array, fields.count == 2 else { throw Self.unexpected("renew") }
        return ((fields[0].array ?? []).compactMap(\.string), (fields[1].array ?? []).compactMap(\.string))
    }

    /// Makes jobs ready whose lease has run out.
    ///
    /// - Parameter leads: sweeps in any case, and so often that nobody else has to.
    /// - Returns: how many; nil where somebody else did it a moment ago.
    @discardableResult
    func sweep(leads: Bool = false) async throws(RedisError) -> Int? {
        let gate = leads ? Self.leadersGate : Self.sweepGate
        let reply = try await redis.run(
            QueueScripts.sweep,
            keys: [keys.lease, keys.meta] + keys.ready + [
                keys.wake, keys.sweepGate, keys.stat, keys.workers, keys.workerInfo,
            ],
            arguments: [
                .int(Self.sweptAtOnce), .int(gate.wholeMilliseconds), .int(Self.workerSilence), leads ? "1" : "0",
            ]
        )
        guard let swept = reply.int else { throw Self.unexpected("sweep") }
        return swept < 0 ? nil : swept
    }

    /// Sweeps where neither a leader nor anybody else has done so a moment ago: with a leader it is one cheap look.
    ///
    /// - Parameter interval: between two sweeps of this worker, where it is the only one.
    /// - Returns: how many, and how soon to look again.
    func sweepInTurn(every interval: Duration) async throws(RedisError) -> (swept: Int, pause: Duration) {
        let left = try await redis.send(["PTTL", .string(keys.sweepGate)]).int ?? 0
        // Not all of a large fleet at once, and soon after it opens: the leader may have died.
        let look = max(Self.shortestLook, .milliseconds(left) * Double.random(in: 0.8...1))
        if left > 0 { return (0, min(interval, look)) }
        let swept = try await sweep()
        return (swept ?? 0, swept == nil ? interval / 2 : interval)
    }

    /// How often the leader sweeps.
    static let leadersSweep: Duration = .milliseconds(250)
    /// Less than a second from the last sweep of a leader that dies to the first one in its place.
    private static let leadersGate: Duration = .milliseconds(900)
    private static let shortestLook: Duration = .milliseconds(20)
    private static let sweptAtOnce = 1000
    /// Less than half of the second at which everybody tries: with several workers somebody sweeps twice a second.
    private static let sweepGate: Duration = .milliseconds(450)
    /// A worker that has not renewed for so long is no longer shown, ms.
    private static let workerSilence = 60_000

    // MARK: -

    private static func verdict(_ reply: RedisValue) throws(RedisError) -> Verdict {
        guard let verdict = reply.string.flatMap(Verdict.init(rawValue:)) else { throw unexpected("settle or retry") }
        return verdict
    }

    static func unexpected(_ script: String) -> RedisError {
        RedisError(.unexpectedReply, "The script \(script) gave an answer that its contract does not have.")
    }

    static func pairs(_ counters: [String: Int]) -> [RedisArgument] {
        counters.filter { $0.value != 0 }.flatMap { [.string($0.key), .int($0.value)] }
    }
}

extension JobQueue {
    /// How many workers have signed on.
    public func workerCount() async throws(RedisError) -> Int {
        try await redis.send(["ZCARD", .string(keys.workers)]).int ?? 0
    }

    /// Ends the connection.
    public func close() { redis.close() }
}
