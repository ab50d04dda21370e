package import MegatonRedis

/// A job that a worker has claimed and not settled, as far as its entry in the queue says.
package struct LeasedJob: Sendable, Equatable {
    package let key: JobKey
    /// The worker that holds its lease.
    package let worker: String
    /// The attempt under way, without those that do not count.
    package let attempt: Int
    /// `host:port` of its source; nil if it has none, or another version has admitted it.
    package let host: String?

    /// - Parameters:
    ///   - text: the text by which the queue knows the job.
    ///   - meta: its entry in `meta`; see `unpackMeta` in `queuePrelude`.
    /// - Returns: nil if another program wrote the entry.
    init?(_ text: String, meta: String) {
        let fields = meta.split(separator: "|", maxSplits: 4, omittingEmptySubsequences: false)
        guard fields.count == 5, !fields[2].isEmpty else { return nil }
        let attempts = fields[0].split(separator: "+").map { Int($0) }
        guard let first = attempts.first, let number = first else { return nil }
        let free = attempts.count > 1 ? attempts[1] ?? 0 : 0
        key = JobKey(text)
        worker = String(fields[2])
        attempt = max(number - free, 1)
        let source = fields[3].split(separator: "@", maxSplits: 2, omittingEmptySubsequences: false)
        // The mark at its end says that the host has let the job pass.
        let name = source.count > 2 ? source[2].prefix { $0 != "!" } : ""
        host = name.isEmpty ? nil : String(name)
    }
}

extension Inspector {
    /// Jobs with a lease, of all shards that answer: those of each shard whose leases end first. Their sources are not
    /// read, as each may have a megabyte.
    ///
    /// - Parameter limit: maximum number of jobs of each shard.
    /// - Throws: if no shard answers, or one refuses to.
    package func leasedJobs(limit: Int) async throws(RedisError) -> [LeasedJob] {
        try await sum(over: []) { (shard, all: inout [LeasedJob]) async throws(RedisError) in
            all += try await shard.leasedJobs(limit: limit)
        }
    }
}

extension JobQueue {
    /// Jobs with a lease, those whose leases end first.
    func leasedJobs(limit: Int) async throws(RedisError) -> [LeasedJob] {
        let reply = try await redis.send(["ZRANGE", .string(keys.lease), "0", .int(limit - 1)])
        let ids = (reply.array ?? []).compactMap(\.string)
        if ids.isEmpty { return [] }
        let metas = try await redis.send(RedisCommand(["HMGET", .string(keys.meta)] + ids.map { .string($0) }))
        return zip(ids, metas.array ?? []).compactMap { id, meta in
            // Settled in between.
            meta.string.flatMap { LeasedJob(id, meta: $0) }
        }
    }
}
