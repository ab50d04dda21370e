package import MegatonRedis

/// Follows a batch: its counters and, if it keeps a ledger, the arrival of outcomes.
package struct BatchMonitor: Sendable {
    private let queue: ShardedQueue
    package let batch: String

    /// Interval at which several shards are asked for outcomes.
    private static let pollInterval: Duration = .milliseconds(50)
    private static let polls = 20

    package init(queue: ShardedQueue, batch: String) {
        self.queue = queue
        self.batch = batch
    }

    package init(queue: JobQueue, batch: String) { self.init(queue: ShardedQueue(queue), batch: batch) }

    /// The current counters.
    package func counters() async throws(RedisError) -> BatchCounters {
        try await queue.counters(of: batch)
    }

    /// Waits for an outcome that no reader has acknowledged, a second at most. Call this after an acknowledging
    /// `OutcomeCursor` has returned none.
    ///
    /// - Parameter redis: a connection that nothing else uses, to the only shard. If there are several, they are
    ///   polled: a blocking command cannot wait for several servers.
    package func waitForOutcome(on redis: RedisClient) async throws(RedisError) {
        if queue.isDivided {
            for _ in 0..<Self.polls {
                let batch = batch
                let found = await queue.results { (shard) async throws(RedisError) in
                    try await shard.redis.send(["EXISTS", .string(shard.keys.results(batch))]).int == 1
                }
                // Those of the others are read without a shard that does not answer.
                if found.contains(where: { if case .success(true) = $0 { true } else { false } }) { return }
                for result in found { _ = try result.get() }
                do {
                    try await Task.sleep(for: Self.pollInterval)
                } catch {
                    return  // Cancelled: the caller ends.
                }
            }
            return
        }
        let queue = queue.first
        let results = RedisArgument.string(queue.keys.results(batch))
        try await redis.send(["BLMOVE", results, results, "LEFT", "LEFT", "1"], timeout: .seconds(3))
    }
}
