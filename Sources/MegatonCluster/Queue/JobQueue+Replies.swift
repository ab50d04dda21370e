internal import Foundation
internal import MegatonRedis
internal import NIOCore

/// The outbox of outcomes that clients receive in lists of their own.
///
/// A script that ends a job puts its outcome into the outbox in the same step, exactly once. The leader takes it from
/// there to the list, whose key may be in another slot of a Redis Cluster: at least once, in order.
extension JobQueue {
    /// Maximum number of entries in a list of a client.
    static let replyLimit = 100_000
    /// Share of the limit on outcomes that one list of a client may have, one in so many: an abandoned list must not
    /// fill Redis.
    private static let replyShare = 8
    /// Limit on outcomes before a leader has published one; the scripts have the same number.
    private static let defaultOutcomeLimit = 1024 * 1024 * 1024

    /// The beginning of the outbox.
    struct Outbox {
        /// The first entries, as they are there.
        let entries: [Data]
        /// Number of all entries.
        let length: Int
        /// Number of bytes that a list may have.
        let listBytes: Int
    }

    /// The first entries of the outbox; nil if another process leads.
    func outbox(limit: Int, name: String, epoch: Int) async throws(RedisError) -> Outbox? {
        let replies = try await redis.pipeline([
            ["LRANGE", .string(keys.replies), "0", .int(limit - 1)],
            ["HGET", .string(keys.stat), "outcome_limit"], ["GET", .string(keys.leader)], ["GET", .string(keys.epoch)],
            ["LLEN", .string(keys.replies)],
        ])
        for case .error(let text) in replies { throw RedisError(reply: text) }
        guard replies.count == 5, let entries = replies[0].array else { throw Self.unexpected("LRANGE") }
        if replies[2].string != name || replies[3].int != epoch { return nil }
        let bytes = (replies[1].int ?? Self.defaultOutcomeLimit) / Self.replyShare
        return Outbox(
            entries: entries.map { $0.buffer.map { Data($0.readableBytesView) } ?? Data() },
            length: replies[4].int ?? 0,
            listBytes: bytes
        )
    }

    /// Appends outcomes to a list of a client; see the script `deliverReplies`.
    ///
    /// - Returns: number of entries that were deleted from the list, as it is full.
    func deliver(
        _ outcomes: [Data],
        to list: String,
        ttl: Int,
        listBytes: Int
    ) async throws(RedisError) -> Int {
        try await redis.run(
            QueueScripts.deliverReplies,
            keys: [list],
            arguments: [.int(ttl), .int(Self.replyLimit), .int(listBytes)]
                + outcomes.map { .buffer(ByteBuffer(bytes: $0)) }
        ).int ?? 0
    }

    /// Deletes delivered entries, and moves those for webhooks to their queue; see the script `removeReplies`.
    ///
    /// - Parameters:
    ///   - moved: indices of those that were not delivered, in order.
    ///   - lost: number of outcomes that are in no list.
    ///   - webhooks: index of each entry that is for a webhook, and the webhook's host.
    ///   - name: name of the leader.
    /// - Returns: the indices of the entries for webhooks that were dropped, as there is no room for them.
    @discardableResult
    func removeReplies(
        _ entries: [Data],
        moved: [Int] = [],
        lost: Int,
        webhooks: [(index: Int, host: String)] = [],
        name: String,
        epoch: Int
    ) async throws(RedisError) -> [Int] {
        guard let last = entries.last else { return [] }
        let reply = try await redis.run(
            QueueScripts.removeReplies,
            keys: [
                keys.leader, keys.epoch, keys.replies, keys.stat, keys.webhooks, keys.webhookQueue, keys.webhookHosts,
                keys.webhookState, keys.webhookGood,
            ],
            arguments: [
                .string(name), .int(epoch), .int(entries.count), .buffer(ByteBuffer(bytes: last)), .int(lost),
                .string(moved.map { "\($0 + 1)" }.joined(separator: " ")),
            ] + webhooks.flatMap { [.int($0.index + 1), .string($0.host)] }
        )
        // Lua counts from 1.
        return (reply.array ?? []).compactMap(\.int).map { $0 - 1 }
    }
}
