internal import Foundation
internal import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

/// The end of a job as it goes to Redis, so that its size is known before it is sent.
struct EncodedEnd: Sendable {
    let job: ClaimedJob
    private let status: JobOutcome.Status
    /// Empty where the job has no batch.
    private let outcome: ByteBuffer
    /// Empty where it has not failed.
    private let dead: ByteBuffer
    /// Pairs of counter and number.
    private let counters: [RedisArgument]

    init(_ end: JobEnd) {
        job = end.job
        status = end.outcome.status
        outcome = end.job.batch.isEmpty ? ByteBuffer() : ByteBuffer(bytes: end.outcome.json())
        dead = end.dead.map { ByteBuffer(bytes: WireJSON.data($0)) } ?? ByteBuffer()
        counters = JobQueue.pairs(end.counters)
    }

    /// Bytes of what has no small bound.
    var size: Int { outcome.readableBytes + dead.readableBytes }

    /// As the script `settle` takes them.
    ///
    /// - Parameter batch: the number that the job's batch has in the call; 0 for none.
    func arguments(batch: Int) -> [RedisArgument] {
        [
            .string(job.key.text), .int(job.attempt), .string(status.rawValue), .int(batch), .buffer(outcome),
            .buffer(dead),
            .int(counters.count / 2),
        ] + counters
    }
}
