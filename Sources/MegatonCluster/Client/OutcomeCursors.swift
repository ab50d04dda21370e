package import Foundation
package import MegatonRedis

/// Reads the outcomes of one batch from all shards of its queue: in each shard in order, and the shards in turn.
package struct OutcomeCursors: Sendable {
    private var cursors: [OutcomeCursor]
    /// The shard that is read next.
    private var turn = 0

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
        precondition(histories.isEmpty || histories.count == queue.shards.count, "each shard has a history")
        cursors = queue.shards.enumerated().map { index, shard in
            OutcomeCursor(
                queue: shard,
                batch: batch,
                history: histories.isEmpty ? OutcomeHistory() : histories[index],
                acknowledges: acknowledges
            )
        }
    }

    /// The outcomes that were read.
    package var history: OutcomeHistories { OutcomeHistories(cursors.map(\.history)) }

    /// Returns the next outcomes of a shard. They stay in Redis until a later call acknowledges them. After an error
    /// the call can be repeated; it then begins with the next shard.
    ///
    /// - Returns: none if no shard has any that the reader does not have. All are acknowledged then.
    package mutating func next() async throws(RedisError) -> [Data] {
        for _ in cursors.indices {
            let shard = turn
            turn = (turn + 1) % cursors.count
            let lines = try await cursors[shard].next()
            if !lines.isEmpty { return lines }
        }
        return []
    }
}

/// The outcomes of a batch that a reader has, of all shards.
package struct OutcomeHistories: Sendable {
    /// One for each shard.
    package let all: [OutcomeHistory]

    package init(_ all: [OutcomeHistory]) { self.all = all }

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
