package import MegatonRedis

extension JobQueue {
    /// Forgets batches that ended long ago, the first ones first.
    ///
    /// - Returns: number of batches that were forgotten, and whether there may be more.
    @discardableResult
    func forgetBatches(
        endedFor age: Duration,
        limit: Int
    ) async throws(RedisError) -> (forgotten: Int, hasMore: Bool) {
        let latest = try await now() - age.wholeMilliseconds
        let names =
            (try await redis.send([
                "ZRANGE", .string(keys.ended), "-inf", .int(latest), "BYSCORE", "LIMIT", "0", .int(limit),
            ]).array ?? []).compactMap(\.string)
        if names.isEmpty { return (0, false) }
        let replies = try await redis.run(
            QueueScripts.forgetBatch,
            calls: names.map { name in
                (
                    [
                        keys.batch(name), keys.results(name), keys.known(name), keys.batches, keys.cancelled,
                        keys.jobs(batch: name), keys.ended, keys.stat, keys.credit,
                    ],
                    [.string(name), .int(age.wholeMilliseconds)]
                )
            }
        )
        for case .error(let text) in replies { throw RedisError(reply: text) }
        return (replies.count { $0.int == 1 }, names.count == limit)
    }

    /// Deletes dead letters that are too old or too many, the oldest first, and publishes the limits, which the scripts
    /// apply, and the ages.
    ///
    /// - Parameter batches: age after which batches are forgotten.
    /// - Returns: number of letters that were deleted. If it is `limit`, there may be more.
    @discardableResult
    func expireDeadLetters(
        olderThan age: Duration,
        limits: Retention.Limits,
        limit: Int,
        batches: Duration = Retention.batches
    ) async throws(RedisError) -> Int {
        try await redis.run(
            QueueScripts.expireDead,
            keys: [keys.dead, keys.deadInfo, keys.stat],
            arguments: [
                .int(age.wholeMilliseconds), .int(limit), .int(limits.deadLetters), .int(limits.outcomes),
                .int(batches.wholeMilliseconds),
            ]
        ).int ?? 0
    }

    /// The ages and limits that the last leader published; nil if there was none.
    func publishedRetention() async throws(RedisError) -> (batches: Duration, retention: Retention)? {
        let fields = try await redis.send([
            "HMGET", .string(keys.stat), "batch_age", "dead_age", "dead_limit", "outcome_limit",
        ])
        let numbers = (fields.array ?? []).compactMap { $0.string.flatMap { Int($0) } }
        guard numbers.count == 4 else { return nil }
        var retention = Retention()
        retention.deadLetters = .milliseconds(numbers[1])
        (retention.deadLetterBytes, retention.outcomeBytes) = (numbers[2], numbers[3])
        return (.milliseconds(numbers[0]), retention)
    }

    /// Number of dead letters that were deleted to make room, or after their time, since the queue was created.
    package func droppedDeadLetters() async throws(RedisError) -> Int {
        try await redis.send(["HGET", .string(keys.stat), "dead_dropped"]).int ?? 0
    }

    /// Bytes of the outcomes of all batches that no reader has acknowledged.
    func outcomeBytes() async throws(RedisError) -> Int {
        try await redis.send(["HGET", .string(keys.stat), "outcome_bytes"]).int ?? 0
    }

    /// Deletes the outcomes of ended batches, of those that ended first.
    ///
    /// - Parameters:
    ///   - offset: number of batches to skip, in the order of their ends.
    ///   - limit: maximum number of batches.
    /// - Returns: bytes that were freed, and whether there are more batches.
    func dropOutcomes(offset: Int, limit: Int) async throws(RedisError) -> (freed: Int, hasMore: Bool) {
        let names =
            (try await redis.send(["ZRANGE", .string(keys.ended), .int(offset), .int(offset + limit - 1)]).array ?? [])
            .compactMap(\.string)
        if names.isEmpty { return (0, false) }
        let replies = try await redis.run(
            QueueScripts.dropOutcomes,
            calls: names.map { ([keys.results($0), keys.batch($0), keys.stat], ["1"]) }
        )
        // The key of a damaged batch is no hash, and has no outcomes that count.
        for case .error(let text) in replies where !text.hasPrefix("WRONGTYPE ") { throw RedisError(reply: text) }
        return (replies.reduce(0) { $0 + ($1.int ?? 0) }, names.count == limit)
    }
}
