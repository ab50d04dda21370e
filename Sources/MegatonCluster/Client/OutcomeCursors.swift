package import Foundation
package import MegatonRedis

/// Reads the outcomes of one batch from all shards of its queue: in each shard in order, and the shards in turn.
package struct OutcomeCursors: Sendable {
    private var cursors: [OutcomeCursor]
    /// The shard that is read next.
    private var turn = 0
    /// The last failures of shards that did not answer, and when these are asked again.
    private var failures: [Int: (error: RedisError, retry: ContinuousClock.Instant)] = [:]
    /// Whether the error that `next` has thrown is a new one: a shard was asked in vain.
    package private(set) var hasNewFailure = false

    /// Interval at which a shard that does not answer is asked: as long as a command waits for it.
    static let retryInterval: Duration = .seconds(5)

    /// - Parameters:
    ///   - histories: the outcomes of each shard that the reader has already; none for a new reader.
    ///   - acknowledges: whether outcomes are deleted when those behind them are read. Otherwise they stay for another
    ///     reader.
    package init(
        queue: ShardedQueue,
        batch: String,
        histories: [OutcomeHistory] = [],
        acknowledges: Bool = true
    ) {
        let isNew = histories.isEmpty
        let histories = isNew ? OutcomeHistories(after: queue.shards.map { _ in 0 }).all : histories
        precondition(histories.count == queue.shards.count, "each shard has a history")
        cursors = zip(queue.shards, histories).map { shard, history in
            OutcomeCursor(queue: shard, batch: batch, history: history, acknowledges: acknowledges)
        }
    }

    /// The outcomes that were read.
    package var history: OutcomeHistories { OutcomeHistories(cursors.map(\.history)) }

    /// Returns the next outcomes of a shard. They stay in Redis until a later call reads the same shard and
    /// acknowledges them: a reader that stops has not acknowledged the last outcomes of each shard. After an error the
    /// call can be repeated.
    ///
    /// One of several shards that does not answer is left out for a while, so that the others are read without it.
    ///
    /// - Returns: none if no shard has any that the reader does not have. All are acknowledged then.
    /// - Throws: the error of a shard, if no other one has outcomes.
    package mutating func next(at now: ContinuousClock.Instant = .now) async throws(RedisError) -> [Data] {
        hasNewFailure = false
        for _ in cursors.indices {
            let shard = turn
            turn = (turn + 1) % cursors.count
            if let failure = failures[shard], now < failure.retry { continue }
            do throws(RedisError) {
                let lines = try await cursors[shard].next()
                failures[shard] = nil
                if !lines.isEmpty { return lines }
            } catch {
                hasNewFailure = true
                guard cursors.count > 1, error.isTransient else { throw error }
                // From the end of the call, which has waited for the shard.
                failures[shard] = (error, max(now, .now) + Self.retryInterval)
            }
        }
        if let failure = failures.min(by: { $0.key < $1.key }) { throw failure.value.error }
        return []
    }
}

/// The outcomes of a batch that a reader has, of all shards.
package struct OutcomeHistories: Sendable {
    /// One for each shard.
    package let all: [OutcomeHistory]

    package init(_ all: [OutcomeHistory]) { self.all = all }

    /// Empty histories, which share the memory of the reader.
    ///
    /// - Parameters:
    ///   - numbers: number of the last outcome of each shard that the reader has or does not want.
    ///   - limit: how many outcomes to remember, of all shards together.
    package init(after numbers: [Int], limit: Int = OutcomeHistory.remembered) {
        all = numbers.map { OutcomeHistory(after: $0, limit: limit / numbers.count) }
    }

    /// Number of outcomes that the reader has or does not want.
    package var number: Int { all.reduce(0) { $0 + $1.number } }
    /// How often a Redis has returned to an earlier state.
    package var returns: Int { all.reduce(0) { $0 + $1.returns } }
    /// Number of outcomes that were deleted before this reader had them.
    package var deleted: Int { all.reduce(0) { $0 + $1.deleted } }
    /// Whether no Redis went back further than its history: outcomes may otherwise be read twice.
    package var isExact: Bool { all.allSatisfy(\.isExact) }

    /// The first of these ids of which the reader has no outcome, among those that it remembers. An id that occurs
    /// twice here must have two.
    package func ids(missingFrom ids: some Sequence<String>, limit: Int) -> [String] {
        OutcomeHistory.ids(missingFrom: ids, in: all, limit: limit)
    }
}
