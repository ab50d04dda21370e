/// Keys of all log metadata.
enum LogKey {
    /// Number of an attempt.
    static let attempts = "attempts"
    static let batch = "batch"
    /// Bucket of S3.
    static let bucket = "s3.bucket"
    static let bytes = "bytes"
    /// Bytes received for a job.
    static let bytesIn = "job.bytes_in"
    /// Bytes of the renditions of a job.
    static let bytesOut = "job.bytes_out"
    /// Code of an error of a job.
    static let code = "error.code"
    static let coordinator = "coordinator.id"
    static let count = "count"
    /// URL of a store of S3.
    static let endpoint = "s3.endpoint"
    /// Seconds until the next attempt.
    static let delay = "job.delay"
    /// Entries of Redis of one kind.
    static let entries = "retention.entries"
    static let epoch = "leader.epoch"
    static let error = "error"
    /// Seconds of a job's requests to its origin.
    static let fetchSeconds = "job.seconds.fetch"
    static let jobID = "job.id"
    /// Names of keys of Redis.
    static let keys = "redis.keys"
    static let limit = "limit"
    /// Key of a client's list.
    static let list = "reply.list"
    static let pid = "process.pid"
    static let queue = "queue"
    static let renderSeconds = "job.seconds.render"
    /// Reply of Redis to a settlement.
    static let reply = "settle.reply"
    /// Final state of a job.
    static let result = "job.result"
    /// Seconds of a job from its claim to its end.
    static let seconds = "job.seconds"
    /// Number of a queue's shard; not set for shard 0.
    static let shard = "queue.shard"
    /// Source of a job, without what may be secret.
    static let source = "job.source"
    static let storeSeconds = "job.seconds.store"
    /// `host:port` of a webhook.
    static let webhookHost = "webhook.host"
    static let worker = "worker.id"
}
