internal import Foundation
internal import MegatonRedis
internal import NIOCore

/// Jobs that their clients follow by idempotency keys, with plain commands.
extension JobQueue {
    /// The memory of the queue about the job that has an idempotency key.
    enum RememberedOutcome: Sendable, Equatable {
        /// The job was admitted and has not ended.
        case open
        /// The job has ended: its outcome as JSON. If it was too long to be remembered, it has nothing but the error of
        /// a failed job, and is nil for another one.
        case ended(Data?)

        /// - Parameter entry: `<id>\n<outcome>`, as the scripts write it.
        init(_ entry: ByteBuffer) {
            let outcome = entry.readableBytesView.drop { $0 != UInt8(ascii: "\n") }.dropFirst()
            switch outcome.first {
            case nil: self = .open
            case UInt8(ascii: "{"): self = .ended(Data(outcome))
            default: self = .ended(nil)
            }
        }
    }

    /// Why a job that is pushed now would not be done soon.
    enum Standstill: Sendable, Equatable {
        case paused, draining
        /// None is signed on.
        case withoutWorkers
        /// Those that are signed on died or hang.
        case silentWorkers
    }

    /// Maximum number of workers that are looked at: those with the newest heartbeats.
    private static let examinedWorkers = 100

    /// Whether a worker has missed at most two heartbeats. A worker that was killed stays signed on for a minute.
    func hasLivingWorker(timeout: Duration) async throws(RedisError) -> Bool {
        let newest: RedisCommand = [
            "ZRANGE", .string(keys.workers), "0", .int(Self.examinedWorkers - 1), "REV", "WITHSCORES",
        ]
        let replies = try await redis.pipeline([["TIME"], newest], timeout: timeout)
        for case .error(let text) in replies { throw RedisError(reply: text) }
        guard replies.count == 2, let time = replies[0].array?.compactMap(\.int), time.count == 2 else {
            throw Self.unexpected("TIME")
        }
        let (now, beats) = (Double(time[0] * 1000 + time[1] / 1000), replies[1].dictionary.map { ($0.key, $0.value) })
        if beats.isEmpty { return false }
        let names = beats.map { RedisArgument.string($0.0) }
        let info = try await redis.send(RedisCommand(["HMGET", .string(keys.workerInfo)] + names), timeout: timeout)
        guard let described = info.array, described.count == beats.count else { throw Self.unexpected("HMGET") }
        return zip(beats, described).contains { beat, info in
            let silent = (now - (Double(beat.1) ?? 0)) / 1000
            return WorkerInfo.isLiving(
                silent: silent,
                renewal: info.string.flatMap { WorkerInfo(stored: $0) }?.renewal
            )
        }
    }

    /// Reads whether jobs are done now, and the outcomes of some jobs, in one round trip. The heartbeats of the workers
    /// are not looked at: see `hasLivingWorker(timeout:)`.
    ///
    /// - Returns: one outcome for each key, nil for a key that the queue does not remember: the job was not admitted
    ///   yet, or was forgotten.
    func rememberedOutcomes(
        of idempotencyKeys: [String],
        timeout: Duration
    ) async throws(RedisError) -> (standstill: Standstill?, outcomes: [RememberedOutcome?]) {
        let modes = [PauseMode.paused, .drain].map { RedisArgument.string($0.rawValue) }
        let state: [RedisCommand] = [
            RedisCommand(["HMGET", .string(keys.control)] + modes), ["ZCARD", .string(keys.workers)],
        ]
        let entries: [RedisCommand] = idempotencyKeys.map { key in
            ["GET", .string(keys.once(IdempotencyEntry.digest(of: key)))]
        }
        let replies = try await redis.pipeline(state + entries, timeout: timeout)
        for case .error(let text) in replies { throw RedisError(reply: text) }
        guard replies.count == state.count + entries.count, let workers = replies[1].int,
            let isSet = replies[0].array?.map({ $0.int == 1 }), isSet.count == modes.count
        else { throw Self.unexpected("HMGET") }
        let standstill: Standstill? = isSet[0] ? .paused : isSet[1] ? .draining : workers == 0 ? .withoutWorkers : nil
        return (standstill, replies.dropFirst(state.count).map { $0.buffer.map(RememberedOutcome.init) })
    }

    /// The end of a job whose idempotency key is its id: the queue keeps the outcome with the key for a time.
    ///
    /// - Returns: nil if the queue does not remember that such a job has ended.
    func rememberedEnd(of key: JobKey) async throws(RedisError) -> RememberedOutcome? {
        let reply = try await redis.send(["GET", .string(keys.once(IdempotencyEntry.digest(of: key.id)))])
        guard let entry = reply.buffer else { return nil }
        // Another job may have the id of this one as its key.
        let isOwn = entry.readableBytesView.prefix { $0 != UInt8(ascii: "\n") }.elementsEqual(key.text.utf8)
        let outcome = RememberedOutcome(entry)
        return isOwn && outcome != .open ? outcome : nil
    }

    /// Pushes jobs to the public list of their priority.
    func push(_ jobs: [Data], as priority: Job.Priority, timeout: Duration) async throws(RedisError) {
        let bodies = jobs.map { RedisArgument.buffer(ByteBuffer(bytes: $0)) }
        try await redis.send(
            RedisCommand(["LPUSH", .string(keys.jobs(priority))] + bodies),
            timeout: timeout
        )
    }
}
