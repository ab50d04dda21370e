package import Foundation
package import MegatonRedis

/// Follows a batch: its counters and, if it keeps a ledger, its outcomes.
package struct BatchMonitor: Sendable {
    private let queue: JobQueue
    package let batch: String

    /// Maximum number of outcomes per call.
    private static let chunk = 1000

    package init(queue: JobQueue, batch: String) {
        self.queue = queue
        self.batch = batch
    }

    /// The current counters.
    package func counters() async throws(RedisError) -> BatchCounters {
        BatchCounters(try await queue.batch(batch))
    }

    /// Returns the next outcomes of the ledger. They stay in Redis until the next call acknowledges them, so that a
    /// lost reply loses none.
    ///
    /// - Parameter kept: total number of outcomes that the caller has stored.
    package func outcomes(kept: Int) async throws(RedisError) -> [Data] {
        try await queue.results(of: batch, kept: kept, limit: Self.chunk)
    }

    /// Waits for an unread outcome, a second at most. Call this after `outcomes` returned none.
    ///
    /// - Parameter redis: a connection that nothing else uses.
    package func waitForOutcome(on redis: RedisClient) async throws(RedisError) {
        let results = RedisArgument.string(queue.keys.results(batch))
        try await redis.send(["BLMOVE", results, results, "LEFT", "LEFT", "1"], timeout: .seconds(3))
    }
}
