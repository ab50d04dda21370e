/// Keys of all log metadata.
enum LogKey {
    /// Number of an attempt.
    static let attempts = "attempts"
    static let batch = "batch"
    /// Bucket of S3.
    static let bucket = "s3.bucket"
    static let bytes = "bytes"
    static let coordinator = "coordinator.id"
    static let count = "count"
    /// URL of a store of S3.
    static let endpoint = "s3.endpoint"
    /// Entries of Redis of one kind.
    static let entries = "retention.entries"
    static let epoch = "leader.epoch"
    static let error = "error"
    static let jobID = "job.id"
    /// Names of keys of Redis.
    static let keys = "redis.keys"
    static let limit = "limit"
    /// Key of a client's list.
    static let list = "reply.list"
    static let pid = "process.pid"
    static let queue = "queue"
    /// Reply of Redis to a settlement.
    static let reply = "settle.reply"
    /// Number of a queue's shard; not set for shard 0.
    static let shard = "queue.shard"
    /// `host:port` of a webhook.
    static let webhookHost = "webhook.host"
    static let worker = "worker.id"
}
