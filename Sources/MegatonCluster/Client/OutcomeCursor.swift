package import Foundation
package import MegatonRedis

/// Reads the outcomes of one batch in order, each once, also if Redis returns to an earlier state.
package struct OutcomeCursor: Sendable {
    private let queue: JobQueue
    private let batch: String
    private let acknowledges: Bool
    /// The outcomes that were read.
    package private(set) var history: OutcomeHistory

    /// Maximum number of outcomes per call.
    private static let chunk = 1000

    /// - Parameters:
    ///   - history: the outcomes that the reader has already.
    ///   - acknowledges: whether outcomes are deleted when those behind them are read. Otherwise they stay for another
    ///     reader.
    package init(
        queue: JobQueue,
        batch: String,
        history: OutcomeHistory = OutcomeHistory(),
        acknowledges: Bool = true
    ) {
        self.queue = queue
        self.batch = batch
        self.history = history
        self.acknowledges = acknowledges
    }

    /// Returns the next outcomes. They stay in Redis until the next call acknowledges them, so that a lost reply loses
    /// none. After an error the call can be repeated.
    ///
    /// - Returns: none if Redis has none that the reader does not have.
    package mutating func next() async throws(RedisError) -> [Data] {
        while true {
            let page = try await queue.results(
                of: batch,
                after: history.number,
                digest: history.digest,
                limit: Self.chunk,
                acknowledges: acknowledges
            )
            let fresh = history.accept(page)
            // Each page without a new outcome has at least moved the reader on.
            if !fresh.isEmpty || page.lines.isEmpty { return fresh }
        }
    }
}
