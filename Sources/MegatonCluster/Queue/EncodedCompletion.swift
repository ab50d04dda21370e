internal import Foundation
internal import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

/// A job completion encoded for Redis, so that its size is known before it is sent.
struct EncodedCompletion: Sendable {
    let job: ClaimedJob
    private let status: JobOutcome.Status
    /// JSON; empty if the job has no batch.
    private let outcome: ByteBuffer
    /// JSON; empty if the job has not failed.
    private let dead: ByteBuffer
    /// Pairs of counter and number.
    private let counters: [RedisArgument]

    init(_ end: JobCompletion) {
        job = end.job
        status = end.outcome.status
        outcome = end.job.batch.isEmpty ? ByteBuffer() : ByteBuffer(bytes: end.outcome.json())
        dead = end.dead.map { ByteBuffer(bytes: WireJSON.data($0)) } ?? ByteBuffer()
        counters = JobQueue.pairs(end.counters)
    }

    /// Bytes of the parts that have no small bound.
    var size: Int { outcome.readableBytes + dead.readableBytes }

    /// Arguments of the script `settle`.
    ///
    /// - Parameter batch: number of the job's batch within the call; 0 for none.
    func arguments(batch: Int) -> [RedisArgument] {
        [
            .string(job.key.text), .int(job.attempt), .string(status.rawValue), .int(batch), .buffer(outcome),
            .buffer(dead),
            .int(counters.count / 2),
        ] + counters
    }
}
