import MegatonCluster
import MegatonRedis

/// The state of the queue in the control Redis.
struct QueueView {
    let redis: RedisClient
    /// The shard of the queue.
    var shard = 0

    private var prefix: String { shard == 0 ? "megaton:{default}:2:" : "megaton:{default:\(shard)}:2:" }

    var queue: JobQueue { JobQueue(redis, keys: QueueKeys(shard: shard)) }

    /// The counters of all jobs. Workers add theirs every 5 s and when they end; `done` is current at all times.
    func stat() async throws -> [String: Int] {
        try await redis.send(["HGETALL", .string(prefix + "stat")]).dictionary.compactMapValues { Int($0) }
    }

    /// Counters of leases; complete when the workers have ended.
    func leases() async throws -> LeaseCounters { LeaseCounters(try await stat()) }

    /// Number of dead letters.
    func dead() async throws -> Int { try await redis.send(["ZCARD", .string(prefix + "dead")]).int ?? 0 }

    /// Number of running jobs.
    func leased() async throws -> Int { try await redis.send(["ZCARD", .string(prefix + "lease")]).int ?? 0 }

    /// Number of jobs done since the queue was created.
    func done() async throws -> Int {
        try await redis.send(["HGET", .string(prefix + "stat"), "done"]).int ?? 0
    }

    func batch(_ name: String) async throws -> BatchCounters {
        try await BatchMonitor(queue: queue, batch: name).counters()
    }

    /// A field of a batch that holds a time, in milliseconds of Redis' clock.
    func time(_ field: String, ofBatch name: String) async throws -> Int? {
        try await redis.send(["HGET", .string(prefix + "batch:" + name), .string(field)]).int
    }

    // MARK: - Single jobs

    /// Ids of jobs that a process has claimed and not settled.
    func held(by pid: Int32) async throws -> [String] {
        let ids = try await redis.send(["ZRANGE", .string(prefix + "lease"), "0", "-1"]).array ?? []
        let names = ids.compactMap(\.string)
        let metas = try await metas(of: names)
        return zip(names, metas).filter { $1.string?.contains(":\(pid):") == true }.map { $0.0 }
    }

    /// Number of these jobs that have not ended.
    func alive(of ids: [String]) async throws -> Int {
        try await metas(of: ids).count { $0 != .null }
    }

    private func metas(of ids: [String]) async throws -> [RedisValue] {
        if ids.isEmpty { return [] }
        let arguments = ids.map { RedisArgument.string($0) }
        return try await redis.send(RedisCommand(["HMGET", .string(prefix + "meta")] + arguments)).array ?? []
    }

    // MARK: - Consistency

    /// Inconsistent jobs: each must have a body, a meta and exactly one place. Checked atomically.
    func misplaced() async throws -> [String] {
        let keys = [
            "body", "meta", "ready:high", "ready:normal", "ready:bulk", "lease", "delay", "suspects", "holding",
        ]
        let reply = try await redis.run(Self.misplacedScript, keys: keys.map { prefix + $0 }, arguments: [])
        return (reply.array ?? []).compactMap(\.string)
    }

    private static let misplacedScript = RedisScript(name: "misplaced", file: PackageResources.misplaced_lua)
}
