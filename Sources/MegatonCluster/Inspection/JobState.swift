internal import Foundation
internal import MegatonCore
package import MegatonRedis

/// The state of one job of a queue, as `megaton job` shows it.
package struct JobState: Sendable, Equatable, Encodable {
    /// The part of its life in which a job is.
    package enum Stage: String, Sendable, Encodable {
        /// It can be claimed.
        case ready
        /// A worker has claimed it.
        case running
        /// It waits for a retry or for its `notBefore`.
        case delayed
        /// It waits until its host takes another request.
        case held
        /// It failed for good and is a dead letter.
        case dead
        /// It has ended, and its batch or its idempotency key remembers how.
        case ended
    }

    package let id: String
    /// Nil for a job without a batch.
    package let batch: String?
    package let stage: Stage
    /// Number of attempts, that under way included; nil for a job that has ended.
    package private(set) var attempts: Int?
    package private(set) var priority: String?
    /// The worker that runs it, or that ended it.
    package private(set) var worker: String?
    /// The host for whose turn it waits.
    package private(set) var host: String?
    /// Until when: the end of the lease, the time at which it is due, or the next turn of its host; seconds since 1970.
    package private(set) var until: Double?
    /// Time of its death, seconds since 1970.
    package private(set) var died: Double?
    /// Why it is dead.
    package private(set) var error: JobOutcome.Failure?
    /// Its outcome; nil if it is not known any more, or not known yet.
    package private(set) var outcome: JobOutcome?

    /// The reply of the script `findJob`; nil if the queue does not know the job.
    ///
    /// - Throws: `.unexpectedReply` for another form.
    init?(_ reply: RedisValue, of key: JobKey) throws(RedisError) {
        guard let fields = reply.array?.map({ $0.string ?? "" }), fields.count == 12 else {
            throw JobQueue.unexpected("findJob")
        }
        func time(_ index: Int) -> Double? { Double(fields[index]).map { $0 / 1000 } }
        (id, batch) = (key.id, key.batch)
        if let attempt = Int(fields[1]) {
            attempts = attempt - (Int(fields[4]) ?? 0)
            priority = Int(fields[3]).flatMap { Job.Priority.allCases.dropFirst($0 - 1).first?.rawValue }
            if let end = time(6) {
                (stage, worker, until) = (.running, fields[2], end)
            } else if let due = time(7) {
                (stage, until) = (.delayed, due)
            } else if fields[2].hasPrefix("#") {
                (stage, host, until) = (.held, fields[5], time(8))
            } else {
                stage = .ready
            }
            return
        }
        if let death = time(9) {
            let letter = try? JSONDecoder().decode(DeadLetter.Content.self, from: Data(fields[10].utf8))
            (stage, died, attempts, worker) = (.dead, death, letter?.attempts, letter?.worker)
            error = letter.map { .init(code: $0.code, message: $0.message, retryable: false) }
            return
        }
        if fields[11].isEmpty { return nil }
        stage = .ended
        outcome = try? JobOutcome(json: Data(fields[11].utf8))
        worker = outcome?.worker
        error = outcome?.error
    }

    /// The end of a job that the queue remembers with its idempotency key.
    ///
    /// - Parameter json: the outcome; nil if it was too long to be remembered.
    init(ended json: Data?, of key: JobKey) {
        (id, batch, stage) = (key.id, key.batch, .ended)
        outcome = json.flatMap { try? JobOutcome(json: $0) }
        worker = outcome?.worker
        error = outcome?.error
    }
}

extension JobState {
    private enum CodingKeys: CodingKey {
        case id, batch, stage, attempts, priority, worker, host, until, died, error, outcome
    }

    package func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: CodingKeys.self)
        try fields.encode(id, forKey: .id)
        try fields.encodeIfPresent(batch, forKey: .batch)
        try fields.encode(stage, forKey: .stage)
        try fields.encodeIfPresent(attempts, forKey: .attempts)
        try fields.encodeIfPresent(priority, forKey: .priority)
        try fields.encodeIfPresent(worker, forKey: .worker)
        try fields.encodeIfPresent(host, forKey: .host)
        try fields.encodeIfPresent(until, forKey: .until)
        try fields.encodeIfPresent(died, forKey: .died)
        try fields.encodeIfPresent(error, forKey: .error)
        // Its fields have the same names wherever an outcome is.
        try fields.encodeIfPresent(outcome.map { try JSONFields(json: $0.json()) }, forKey: .outcome)
    }
}

extension JobQueue {
    /// The state of a job in this shard; nil if the queue does not know the job: it was never pushed, was not read yet,
    /// or has ended without a trace. Jobs whose idempotency key is their id leave one.
    func state(of key: JobKey) async throws(RedisError) -> JobState? {
        let batch = key.batch ?? ""
        let reply = try await redis.run(
            QueueScripts.findJob,
            keys: [
                keys.meta, keys.lease, keys.delay, keys.dead, keys.deadInfo, keys.held, keys.known(batch),
            ],
            arguments: [.string(key.text), .string(batch.isEmpty ? "" : key.id)]
        )
        if let state = try JobState(reply, of: key) { return state }
        guard case .ended(let outcome)? = try await rememberedEnd(of: key) else { return nil }
        return JobState(ended: outcome, of: key)
    }
}

extension ShardedQueue {
    /// The states of a job in all shards that know it: those in which it is alive first. In most queues there is one.
    package func states(of key: JobKey) async throws(RedisError) -> [JobState] {
        let states = try await forEach { (shard) async throws(RedisError) in try await shard.state(of: key) }
        let known = states.compactMap { $0 }
        let isOver: (JobState) -> Bool = { [.dead, .ended].contains($0.stage) }
        return known.filter { !isOver($0) } + known.filter(isOver)
    }
}
