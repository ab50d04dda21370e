package import MegatonRedis
internal import NIOCore

extension JobQueue {
    /// Pushes a job to the public list of its priority, as clients in other languages do.
    ///
    /// A push whose reply was lost may have happened: push again only a job with an id or an idempotency key.
    package func push(_ job: Job) async throws(RedisError) {
        try await redis.send(["LPUSH", .string(keys.jobs(job.priority)), .buffer(ByteBuffer(bytes: job.json()))])
    }
}
