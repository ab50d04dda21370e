package import Foundation
package import MegatonRedis

/// Reads outcomes of one batch from any position, and leaves them in Redis: several readers do not disturb each other,
/// nor one that acknowledges.
package struct OutcomeView: Sendable {
    /// Outcomes of one shard, in order.
    package struct Part: Sendable {
        package let shard: Int
        /// Number of the first outcome.
        package let first: Int
        /// The outcomes as JSON.
        package let lines: [Data]
    }

    /// The outcomes behind a position.
    package struct Page: Sendable {
        /// The counters of the batch at a moment before the outcomes were read.
        package let counters: BatchCounters
        package fileprivate(set) var parts: [Part] = []
        /// The position of the first outcome that is not here.
        package fileprivate(set) var next: OutcomePosition
        /// Number of outcomes that were deleted between the position and those here: another reader has acknowledged
        /// them, or they made room.
        package fileprivate(set) var missing = 0
        /// Whether Redis has fewer outcomes than the position says, so that the outcomes here are all that it has: it
        /// has returned to an earlier state, or the position is not one of this batch.
        package fileprivate(set) var wentBack = false
        /// Whether there were no more outcomes in Redis.
        package fileprivate(set) var isComplete = true

        package var count: Int { parts.reduce(0) { $0 + $1.lines.count } }
        /// Whether the batch has ended and has no outcome behind those here. So it is if shards have lost their part of
        /// the batch, and all others have ended theirs.
        package var isLast: Bool { isComplete && (counters.isFinished || counters.lacksOnlyLostParts) }
    }

    private let queue: ShardedQueue
    package let batch: String

    /// Maximum number of outcomes of one page.
    package static let maximumCount = 1000

    package init(queue: ShardedQueue, batch: String) {
        self.queue = queue
        self.batch = batch
    }

    /// Number of shards of the queue.
    package var shardCount: Int { queue.shards.count }

    /// Reads the outcomes behind a position.
    ///
    /// - Parameters:
    ///   - limit: maximum number of outcomes; none if it is 0.
    ///   - maximumBytes: number of bytes at which the page ends; its last outcome may exceed them.
    package func page(
        from position: OutcomePosition,
        limit: Int = Self.maximumCount,
        maximumBytes: Int = OutcomePage.usualBytes
    ) async throws(RedisError) -> Page {
        // Before the outcomes: a batch that has finished has them all.
        let counters = try await queue.counters(of: batch)
        var page = Page(counters: counters, next: position.of(shards: queue.shards.count))
        guard counters.isKnown else { return page }
        var (rest, room) = (min(limit, Self.maximumCount), maximumBytes)
        for (shard, queue) in queue.shards.enumerated() {
            guard rest > 0, room > 0 else {
                page.isComplete = false
                break
            }
            let number = page.next[shard]
            let found = try await queue.results(
                of: batch,
                after: number - 1,
                digest: "",
                limit: rest,
                bytes: room,
                acknowledges: false
            )
            switch found.state {
            case .continues: break
            case .wentBack: page.wentBack = true
            case .deleted: page.missing += found.start + 1 - number
            }
            page.next[shard] = found.start + 1 + found.lines.count
            rest -= found.lines.count
            room -= found.lines.reduce(0) { $0 + $1.count }
            // The script ends at either limit, and otherwise at the end of the list.
            if rest == 0 || room <= 0 { page.isComplete = false }
            if !found.lines.isEmpty {
                page.parts.append(Part(shard: shard, first: found.start + 1, lines: found.lines))
            }
        }
        return page
    }
}
