internal import Foundation
internal import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

/// Completion of a claimed job, encoded for Redis, so that its size is known before it is sent.
package struct JobCompletion: Sendable {
    let job: ActiveJob
    /// The job's idempotency key; nil if it has none.
    let entry: IdempotencyEntry?
    private let status: JobOutcome.Status
    private let reply: JobReply?
    /// JSON; empty if the job has no batch, no idempotency key and no reply.
    private let outcome: ByteBuffer
    /// JSON; empty if the job has not failed.
    private let dead: ByteBuffer
    /// Pairs of counter and number.
    private let counters: [RedisArgument]

    /// - Parameters:
    ///   - dead: dead letter of a failed job.
    ///   - counters: numbers to add to the counters of its batch.
    ///   - parsed: the job, if it could be read.
    ///   - reply: where the outcome is sent.
    package init(
        job: ActiveJob,
        outcome: JobOutcome,
        dead: DeadLetter.Content? = nil,
        counters: [String: Int] = [:],
        of parsed: Job? = nil,
        replyingTo reply: JobReply? = nil
    ) {
        self.job = job
        entry = parsed.flatMap(IdempotencyEntry.init)
        self.reply = reply
        status = outcome.status
        let isKept = !job.batch.isEmpty || entry != nil || reply != nil
        self.outcome = isKept ? ByteBuffer(bytes: outcome.json()) : ByteBuffer()
        self.dead = dead.map { ByteBuffer(bytes: WireJSON.data($0)) } ?? ByteBuffer()
        self.counters = JobQueue.pairs(counters)
    }

    /// Bytes of the parts that have no small bound.
    var size: Int { outcome.readableBytes + dead.readableBytes }

    /// Arguments of the script `settle`.
    ///
    /// - Parameters:
    ///   - batch: number of the job's batch within the call; 0 for none.
    ///   - entry: number of its idempotency key; 0 for none.
    func arguments(batch: Int, entry: Int) -> [RedisArgument] {
        [
            .string(job.key.text), .int(job.attempt), .string(status.rawValue), .int(batch), .int(entry),
            .buffer(outcome), .buffer(dead), .string(reply?.target ?? ""), .int(counters.count / 2),
        ] + counters
    }
}

/// Reply of Redis to a write about a claimed job.
package enum SettleResult: String, Sendable {
    case ok
    /// The job has already ended.
    case alreadySettled = "gone"
    /// Another attempt is under way.
    case fenced
    /// The lease ran out; another attempt will be made.
    case leaseExpired = "nolease"
    /// The write took effect, but the keys of the job's batch are damaged, so that the batch may not have counted the
    /// job.
    case damaged

    /// Whether this write took effect.
    var wasApplied: Bool { self == .ok || self == .damaged }
}
