public import Foundation
public import MegatonRedis

/// Follows a batch: its counters, and its outcomes where it keeps a ledger.
public struct BatchMonitor: Sendable {
    private let queue: JobQueue
    public let batch: String

    /// Outcomes that are taken at once.
    private static let chunk = 1000

    public init(queue: JobQueue, batch: String) {
        self.queue = queue
        self.batch = batch
    }

    /// The counters as they are now.
    public func counters() async throws(RedisError) -> BatchCounters {
        BatchCounters(try await queue.batch(batch))
    }

    /// The next outcomes of the ledger. They stay there until the next call says that the caller has them, so that a
    /// reply that is lost loses none.
    ///
    /// - Parameter kept: how many outcomes the caller has in all.
    public func outcomes(kept: Int) async throws(RedisError) -> [Data] {
        try await queue.results(of: batch, kept: kept, limit: Self.chunk)
    }

    /// Waits until an outcome is there that has not been read, a second at the most. To be called after `outcomes`
    /// gave none.
    ///
    /// - Parameter redis: a connection that nothing else uses.
    public func waitForOutcome(on redis: RedisClient) async throws(RedisError) {
        let results = RedisArgument.string(queue.keys.results(batch))
        try await redis.send(["BLMOVE", results, results, "LEFT", "LEFT", "1"], timeout: .seconds(3))
    }

    /// Stops the batch. One that is not there (nothing was pushed yet) has nothing to stop.
    public func cancel() async throws(RedisError) {
        do {
            try await queue.cancel(batch: batch)
        } catch {
            guard error.message.contains("NOBATCH") else { throw error }
        }
    }
}
