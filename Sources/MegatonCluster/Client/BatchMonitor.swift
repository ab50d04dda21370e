package import MegatonRedis

/// Follows a batch: its counters and, if it keeps a ledger, the arrival of outcomes.
package struct BatchMonitor: Sendable {
    private let queue: JobQueue
    package let batch: String

    package init(queue: JobQueue, batch: String) {
        self.queue = queue
        self.batch = batch
    }

    /// The current counters.
    package func counters() async throws(RedisError) -> BatchCounters {
        BatchCounters(try await queue.batch(batch))
    }

    /// Waits for an outcome that no reader has acknowledged, a second at most. Call this after an acknowledging
    /// `OutcomeCursor` has returned none.
    ///
    /// - Parameter redis: a connection that nothing else uses.
    package func waitForOutcome(on redis: RedisClient) async throws(RedisError) {
        let results = RedisArgument.string(queue.keys.results(batch))
        try await redis.send(["BLMOVE", results, results, "LEFT", "LEFT", "1"], timeout: .seconds(3))
    }
}
