internal import Foundation
internal import MegatonRedis
internal import NIOCore

/// The outbox of outcomes that clients receive in lists of their own.
///
/// A script that ends a job puts its outcome into the outbox in the same step, exactly once. The leader takes it from
/// there to the list, whose key may be in another slot of a Redis Cluster: at least once, in order. If the list cannot
/// be reached, its outcomes wait in a list of their own in the slot of the queue (`QueueKeys.away`).
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
        /// Number of bytes that a list may have.
        let listBytes: Int
    }

    /// The first entries of the outbox; nil if another process leads.
    func outbox(limit: Int, name: String, epoch: Int) async throws(RedisError) -> Outbox? {
        let replies = try await redis.pipeline([
            ["LRANGE", .string(keys.replies), "0", .int(limit - 1)],
            ["HGET", .string(keys.stat), "outcome_limit"], ["GET", .string(keys.leader)], ["GET", .string(keys.epoch)],
        ])
        for case .error(let text) in replies { throw RedisError(reply: text) }
        guard replies.count == 4, let entries = replies[0].array else { throw Self.unexpected("LRANGE") }
        if replies[2].string != name || replies[3].int != epoch { return nil }
        let bytes = (replies[1].int ?? Self.defaultOutcomeLimit) / Self.replyShare
        return Outbox(
            entries: entries.map { $0.buffer.map { Data($0.readableBytesView) } ?? Data() },
            listBytes: bytes
        )
    }

    /// Appends outcomes to a list of a client; see the script `deliverReplies`.
    ///
    /// - Parameter timeout: that of a command if nil.
    /// - Returns: number of entries that were deleted from the list, as it is full.
    func deliver(
        _ outcomes: [Data],
        to list: String,
        ttl: Int,
        listBytes: Int,
        timeout: Duration? = nil
    ) async throws(RedisError) -> Int {
        try await redis.run(
            QueueScripts.deliverReplies,
            keys: [list],
            arguments: [.int(ttl), .int(Self.replyLimit), .int(listBytes)]
                + outcomes.map { .buffer(ByteBuffer(bytes: $0)) },
            timeout: timeout
        ).int ?? 0
    }

    /// Deletes delivered entries, and moves those for webhooks to their queue; see the script `removeReplies`.
    ///
    /// - Parameters:
    ///   - moved: index of each that was not delivered, and its list, in order.
    ///   - lost: number of outcomes that are in no list.
    ///   - webhooks: index of each entry that is for a webhook, and the webhook's host.
    ///   - name: name of the leader.
    /// - Returns: the indices of the entries for webhooks that were dropped, as there is no room for them.
    @discardableResult
    func removeReplies(
        _ entries: [Data],
        moved: [(index: Int, list: String)] = [],
        lost: Int,
        webhooks: [(index: Int, host: String)] = [],
        name: String,
        epoch: Int
    ) async throws(RedisError) -> [Int] {
        guard let last = entries.last else { return [] }
        let lists = Array(Set(moved.map(\.list))).sorted()
        let number = Dictionary(uniqueKeysWithValues: lists.enumerated().map { ($1, $0 + 1) })
        let reply = try await redis.run(
            QueueScripts.removeReplies,
            keys: [
                keys.leader, keys.epoch, keys.replies, keys.stat, keys.webhooks, keys.webhookQueue, keys.webhookHosts,
                keys.webhookState, keys.webhookGood, keys.away,
            ] + lists.map(keys.away),
            arguments: [
                .string(name), .int(epoch), .int(entries.count), .buffer(ByteBuffer(bytes: last)), .int(lost),
                .string(moved.map { "\($0.index + 1):\(number[$0.list] ?? 0)" }.joined(separator: " ")),
            ] + webhooks.flatMap { [.int($0.index + 1), .string($0.host)] }
        )
        // Lua counts from 1.
        return (reply.array ?? []).compactMap(\.int).map { $0 - 1 }
    }

    /// The lists that could not be reached and have outcomes. Their number is bounded by the bytes of these
    /// (`--outcome-limit`).
    func awayLists() async throws(RedisError) -> [String] {
        var names: [String] = []
        while true {
            let (first, last) = (RedisArgument.int(names.count), RedisArgument.int(names.count + Self.namesAtOnce - 1))
            let page = try await redis.send(["ZRANGE", .string(keys.away), first, last]).array ?? []
            names += page.compactMap(\.string)
            if page.count < Self.namesAtOnce { return names }
        }
    }

    private static let namesAtOnce = 1000

    /// The first outcomes of a list that could not be reached, as they were in the outbox.
    func awayOutcomes(of list: String, limit: Int) async throws(RedisError) -> [Data] {
        let reply = try await redis.send(["LRANGE", .string(keys.away(list)), "0", .int(limit - 1)])
        return (reply.array ?? []).map { $0.buffer.map { Data($0.readableBytesView) } ?? Data() }
    }

    /// Deletes outcomes of such a list that were delivered now; see the script `removeAway`.
    ///
    /// - Returns: number of those that are left.
    func removeAway(
        _ entries: [Data],
        of list: String,
        lost: Int,
        name: String,
        epoch: Int
    ) async throws(RedisError) -> Int {
        try await redis.run(
            QueueScripts.removeAway,
            keys: [keys.leader, keys.epoch, keys.away, keys.away(list), keys.stat],
            arguments: [
                .string(name), .int(epoch), .string(list), .int(entries.count),
                .buffer(ByteBuffer(bytes: entries.last ?? Data())), .int(lost),
            ]
        ).int ?? 0
    }
}
