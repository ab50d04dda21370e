package import MegatonRedis

/// The jobs that can be claimed, by priority.
package struct ReadyJobs: Sendable, Equatable {
    /// Number of jobs; a pack counts as one.
    package var counts: [Job.Priority: Int] = [:]
    /// Seconds since the oldest of them could first be claimed, by the clock of Redis. Nil without such a job, and if
    /// another version has admitted it.
    package var ages: [Job.Priority: Double] = [:]

    package init(counts: [Job.Priority: Int] = [:], ages: [Job.Priority: Double] = [:]) {
        self.counts = counts
        self.ages = ages
    }
}

extension Inspector {
    /// Number and age of the jobs that can be claimed, of all shards that answer.
    ///
    /// - Throws: if no shard answers, or one refuses to.
    package func readyJobs() async throws(RedisError) -> ReadyJobs {
        try await sum(over: ReadyJobs()) { (shard, all: inout ReadyJobs) async throws(RedisError) in
            let (lists, oldest) = try await shard.readyJobs()
            all.counts.merge(lists, uniquingKeysWith: +)
            all.ages.merge(oldest, uniquingKeysWith: max)
        }
    }

    /// Adds what the shards know to a value. Shards that do not answer are left out.
    ///
    /// - Throws: if no shard answers, or one refuses to.
    func sum<Value: Sendable>(
        over start: Value,
        _ add: @Sendable (JobQueue, inout Value) async throws(RedisError) -> Void
    ) async throws(RedisError) -> Value {
        var (value, failure, answers): (Value, RedisError?, Int) = (start, nil, 0)
        for shard in queue.shards {
            do throws(RedisError) {
                try await add(shard, &value)
                answers += 1
            } catch {
                guard error.isTransient else { throw error }
                failure = error
            }
        }
        if let failure, answers == 0 { throw failure }
        return value
    }
}

extension JobQueue {
    /// Number of entries at the end of a list of which the oldest is looked for: a job that was put back for a reason
    /// of its own has no time.
    private static let lookedAt = 16

    /// Number and age of the jobs that can be claimed; see ``ReadyJobs``.
    func readyJobs() async throws(RedisError) -> (counts: [Job.Priority: Int], ages: [Job.Priority: Double]) {
        let priorities = Job.Priority.allCases
        let replies = try await redis.pipeline(
            keys.ready.map { ["LLEN", .string($0)] }
                + keys.ready.map { ["LRANGE", .string($0), .int(-Self.lookedAt), "-1"] }
        )
        for case .error(let text) in replies { throw RedisError(reply: text) }
        guard replies.count == 2 * priorities.count else { throw Self.unexpected("LRANGE") }
        let (now, counts) = (try await milliseconds(), replies.prefix(priorities.count).map { $0.int ?? 0 })
        var ages: [Job.Priority: Double] = [:]
        for (priority, reply) in zip(priorities, replies.dropFirst(priorities.count)) {
            let ids = (reply.array ?? []).compactMap(\.string)
            if ids.isEmpty { continue }
            let metas = try await redis.send(RedisCommand(["HMGET", .string(keys.meta)] + ids.map { .string($0) }))
            let times = (metas.array ?? []).compactMap { $0.string.flatMap(Self.readyTime) }
            if let oldest = times.min() { ages[priority] = max(0, now - oldest) / 1000 }
        }
        return (Dictionary(uniqueKeysWithValues: zip(priorities, counts)), ages)
    }

    /// Milliseconds of the clock of Redis at which a job became ready, from its meta; see `readyMark` in
    /// `queuePrelude`.
    static func readyTime(_ meta: String) -> Double? {
        let fields = meta.split(separator: "|", maxSplits: 3, omittingEmptySubsequences: false)
        guard fields.count == 4, fields[2].first == "@" else { return nil }
        return Double(fields[2].dropFirst()).flatMap { $0.isFinite ? $0 : nil }
    }
}
