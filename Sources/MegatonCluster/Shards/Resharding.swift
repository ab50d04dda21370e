internal import Foundation
package import MegatonRedis

/// Changes the number of shards of a queue; see the section "Shards" of <doc:Scheduling>.
///
/// No job moves. Shards that are added begin empty, and paused if shard 0 is; shards that are removed must be empty.
/// Each step can be repeated, so that the same command finishes a change that was interrupted. A copy is replaced only
/// if it is the one that was read: of two commands at the same time, one changes nothing more.
package struct Resharding: Sendable {
    let address: QueueAddress
    private let shard: @Sendable (Int) -> JobQueue

    /// - Parameter shard: returns a shard by its number, whether the queue has it or not.
    package init(_ address: QueueAddress, shard: @escaping @Sendable (Int) -> JobQueue) {
        self.address = address
        self.shard = shard
    }

    /// Changes the number of shards.
    ///
    /// All servers of the queue must be named, also those of shards that are removed: the first ones are those of the
    /// shards that remain.
    ///
    /// - Parameters:
    ///   - acceptsLoss: whether shards that have lost their data are used again, empty, or removed.
    ///   - onLoss: called when all checks have passed, before the first shard changes, with a sentence for each shard
    ///     that is given up, or that had a part in ended batches.
    /// - Returns: the previous number of shards.
    /// - Throws: `.shardMismatch` if the servers are not those of the queue, a shard that would be removed is not
    ///   empty, or a shard that would be added is in use. The queue is then as before.
    package func change(
        to count: Int,
        acceptsLoss: Bool = false,
        onLoss: @Sendable (String) -> Void = { _ in }
    ) async throws(RedisError) -> Int {
        let first = shard(0)
        let stored = try await copy(in: first)
        if stored == nil {
            for number in address.servers.indices.dropFirst() {
                try await ShardLayout.requireNone(at: JobQueue(shard(number).redis, keys: address.keys(0)))
            }
        }
        let old = try await layout(stored, of: first, count, acceptsLoss: acceptsLoss)
        guard address.servers.count <= max(count, old.count) else {
            throw refusal(
                "\(address.servers.count) servers are named, and a queue of \(Self.shards(count)) uses "
                    + "\(count == 1 ? "one" : "at most \(count)"). Name the servers of the queue"
                    + "\(old.isStored ? ", which has \(old.summary)" : ""), or choose more shards."
            )
        }
        if old.isStored {
            try requirePlaces(old, count, acceptsLoss: acceptsLoss)
        } else if !acceptsLoss {
            try await requireNoOtherShards()
        }
        // Shard 0 has lost its copy if the layout is that of shard 1.
        if stored != nil || !old.isStored, try await isDone(old, count) { return old.count }
        let pending = old.target
        let servers = min(address.servers.count, count)
        var new = ShardLayout(count: count, id: ShardLayout.makeID(servers: servers))
        if let pending, pending.count == count {
            let begun = ShardLayout(count: count, id: pending.id)
            if begun.servers ?? servers == servers { new = begun }
        }
        var changing = old
        changing.target = ShardLayout.Target(count: count, id: new.id)
        let change = Change(
            stored: stored,
            old: old,
            announcement: changing.text(of: 0),
            new: new,
            removed: count..<max(old.count, pending?.count ?? 0, count),
            acceptsLoss: acceptsLoss
        )
        // Before the change is announced: a refusal, or a server that does not answer, must not end the processes.
        _ = try await examine(change)
        // From here on no process starts, and those that work end when they look.
        try await step("Announcing the change in", first) { () async throws(RedisError) in
            try await replace(stored, by: change.announcement, in: first, change)
        }
        do throws(RedisError) {
            try await finish(change, onLoss)
        } catch {
            if error.code == .shardMismatch { throw error }
            throw RedisError(
                error.code,
                "\(error.message) The change to \(Self.shards(count)) has begun, and no process of the queue "
                    + "\"\(address.queue)\" starts before it has ended: run megaton queue reshard \(count) again, or "
                    + "megaton queue reshard \(old.count) to undo it."
            )
        }
        return old.count
    }

    /// Carries out a change that was announced.
    private func finish(_ change: Change, _ onLoss: @Sendable (String) -> Void) async throws(RedisError) {
        let found: (copies: [String?], losses: [String])
        do throws(RedisError) {
            // Again: a batch may have begun in between.
            found = try await examine(change)
        } catch {
            // A refusal leaves the queue as it was.
            if error.code == .shardMismatch {
                try await step("Withdrawing the change from", shard(0)) { () async throws(RedisError) in
                    _ = try await shard(0).changeLayout(from: change.announcement, to: change.stored)
                }
            }
            throw error
        }
        // Not sooner: a change that is refused loses nothing.
        for loss in found.losses { onLoss(loss) }
        try await copyPauses(change, found.copies)
        for (number, copy) in zip(1..<change.new.count, found.copies) {
            try await write(change, to: shard(number), over: copy)
        }
        try await write(change, to: shard(0), over: change.announcement)
    }

    private func write(_ change: Change, to shard: JobQueue, over copy: String?) async throws(RedisError) {
        try await step("Writing the layout to", shard) { () async throws(RedisError) in
            try await replace(copy, by: change.new.text(of: shard.keys.shard), in: shard, change)
        }
    }

    /// Gives the shards that are added, or have lost their data, the pauses of shard 0: a paused queue stays paused.
    private func copyPauses(_ change: Change, _ copies: [String?]) async throws(RedisError) {
        for (number, copy) in zip(1..<change.new.count, copies) where copy == nil || number >= change.old.count {
            let wanted = try await step("Reading the pauses of", shard(0)) { () async throws(RedisError) in
                try await pauses(of: shard(0))
            }
            try await step("Copying the pauses to", shard(number)) { () async throws(RedisError) in
                let present = try await pauses(of: shard(number))
                for mode in JobQueue.PauseMode.allCases where wanted.contains(mode) != present.contains(mode) {
                    try await shard(number).set(mode, to: wanted.contains(mode))
                }
            }
        }
    }

    private func pauses(of shard: JobQueue) async throws(RedisError) -> Set<JobQueue.PauseMode> {
        let fields = try await shard.redis.send(["HGETALL", .string(shard.keys.control)]).dictionary
        return Set(JobQueue.PauseMode.allCases.filter { fields[$0.rawValue] == "1" })
    }

    /// A change of the number of shards.
    private struct Change: Sendable {
        /// The copy of shard 0 before the change. If it has none, a shard with a copy shows that it has lost it.
        let stored: String?
        let old: ShardLayout
        /// The copy of shard 0 during the change.
        let announcement: String
        let new: ShardLayout
        /// Shards that the queue loses.
        let removed: Range<Int>
        let acceptsLoss: Bool
    }

    /// Checks all shards except the first.
    ///
    /// - Returns: the copies of those that the queue will have, and a sentence for each loss of the change.
    private func examine(_ change: Change) async throws(RedisError) -> (copies: [String?], losses: [String]) {
        var copies: [String?] = []
        var losses: [String] = []
        if change.stored == nil && change.old.isStored { losses.append(givenUp(shard(0))) }
        for number in 1..<change.new.count {
            let copy = try await step("Checking", shard(number)) { () async throws(RedisError) in
                try await requireOwn(shard(number), change)
            }
            if copy == nil && number < change.old.count { losses.append(givenUp(shard(number))) }
            copies.append(copy)
        }
        for number in change.removed {
            let isLost = try await step("Checking", shard(number)) { () async throws(RedisError) in
                try await !isPresent(shard(number), change)
            }
            if isLost { losses.append(givenUp(shard(number))) }
            let ended = try await step("Looking for work in", shard(number)) { () async throws(RedisError) in
                try await requireEmpty(shard(number), change.new.count)
                return try await endedBatches(in: shard(number))
            }
            if !ended.isEmpty && !isLost { losses.append(forgotten(ended, in: shard(number))) }
        }
        return (copies, losses)
    }

    private func givenUp(_ shard: JobQueue) -> String {
        "Shard \(shard.keys.shard) of the queue \"\(address.queue)\" is given up, with its jobs, outcomes and dead "
            + "letters: \(shard.redis.configuration) has nothing of it."
    }

    /// Checks that shards which remain are still on their servers, and those that are removed can be looked at.
    private func requirePlaces(_ old: ShardLayout, _ count: Int, acceptsLoss: Bool) throws(RedisError) {
        let servers = address.servers.count
        let state = "The queue \"\(address.queue)\" has \(old.summary), \(ShardLayout.named(servers))"
        if let moved = old.misplaced(in: 0..<min(old.count, count), servers: servers) {
            throw refusal(
                "\(state): shard \(moved) would be on another server than its jobs. \(ShardLayout.namingRemedy) To "
                    + "use other servers, let the queue run empty, run megaton queue reshard 1 with those that it has, "
                    + "and then megaton queue reshard \(count) with the others, beginning with the same one."
            )
        }
        if !acceptsLoss, let unseen = old.misplaced(in: min(old.count, count)..<old.count, servers: servers) {
            throw refusal(
                "\(state): it is unknown whether shard \(unseen), which would be removed, is empty. Name all servers "
                    + "of the queue, in their order; those of the shards that remain come first. Only if the other "
                    + "servers are lost for good, add --accept-loss."
            )
        }
    }

    /// Checks that no server has a shard of a queue that seems to be undivided: one that is not named may have shard 0.
    private func requireNoOtherShards() async throws(RedisError) {
        for number in address.servers.indices {
            // In a Redis Cluster, shard 1 was looked up.
            if case .cluster = address.server(number).address { continue }
            let others = ShardLayout.counts.dropLast()
            let replies = try await shard(number).redis.pipeline(
                others.map { ["GET", .string(address.keys($0).layout)] }
            )
            for (other, reply) in zip(others, replies) {
                guard let text = reply.string, let (found, layout) = ShardLayout.parse(text), found == other else {
                    continue
                }
                throw refusal(
                    "The Redis \(address.server(number)) has shard \(other) of the queue \"\(address.queue)\", which "
                        + "had \(layout.summary), but \(address.server(0)) does not have its shard 0, "
                        + "\(ShardLayout.named(address.servers.count)). \(ShardLayout.namingRemedy) Only if the others "
                        + "have lost their data, add --accept-loss."
                )
            }
        }
    }

    /// Whether a shard that is removed has its copy of the layout. Without it, the shard may have jobs elsewhere, which
    /// the change would cut off.
    private func isPresent(_ shard: JobQueue, _ change: Change) async throws(RedisError) -> Bool {
        let number = shard.keys.shard
        guard number < change.old.count else { return true }
        let text = try await shard.layout()
        if let found = text.flatMap(ShardLayout.parse), found.shard == number,
            [change.old.id, change.old.target?.id].contains(found.layout.id)
        {
            return true
        }
        try await requireLost(number, change)
        if change.acceptsLoss { return false }
        let found = text.map { "\"\($0.prefix(64))\" in the place of it" } ?? "nothing of it"
        throw refusal(
            "Shard \(number) of the queue \"\(address.queue)\" cannot be removed, as \(shard.redis.configuration) has "
                + "\(found): its jobs may be on another server. \(ShardLayout.namingRemedy) Only if its server has "
                + "lost its data, add --accept-loss."
        )
    }

    /// Checks that no server which is named has a shard that its own server does not have.
    private func requireLost(_ number: Int, _ change: Change) async throws(RedisError) {
        let place = address.server(number)
        for index in address.servers.indices where address.server(index) != place {
            let text = try await JobQueue(shard(index).redis, keys: address.keys(number)).layout()
            guard let found = text.flatMap(ShardLayout.parse), found.shard == number,
                found.layout.id == change.old.id
            else { continue }
            throw refusal(
                "Shard \(number) of the queue \"\(address.queue)\" is on \(address.server(index)), and would be on "
                    + "\(place) with these servers: nothing is lost. \(ShardLayout.namingRemedy)"
            )
        }
    }

    /// The layout of shard 0; if it has lost its copy, that of shard 1.
    private func layout(
        _ text: String?,
        of first: JobQueue,
        _ count: Int,
        acceptsLoss: Bool
    ) async throws(RedisError) -> ShardLayout {
        guard let text else {
            guard let lost = try await ShardLayout.lost(shard(1), needsAnswer: count > 1) else { return ShardLayout() }
            let isPlaced = lost.misplaced(in: 0..<lost.count, servers: address.servers.count) == nil
            guard isPlaced && acceptsLoss && count == lost.count else {
                throw lost.withoutFirst(at: first, servers: address.servers.count)
            }
            return lost
        }
        guard let (number, layout) = ShardLayout.parse(text), number == 0 else {
            throw refusal(
                "The Redis \(first.redis.configuration) does not have shard 0 of the queue \"\(address.queue)\", but "
                    + "\"\(text.prefix(64))\". Name the servers in the order in which the processes of the queue do."
            )
        }
        return layout
    }

    /// Whether all shards have their copies of a layout with this number already.
    private func isDone(_ old: ShardLayout, _ count: Int) async throws(RedisError) -> Bool {
        guard old.target == nil, old.count == count else { return false }
        if !old.isStored { return true }
        for number in 1..<count {
            let shard = shard(number)
            if try await copy(in: shard) != old.text(of: number) { return false }
        }
        return true
    }

    /// Checks that a shard is or may become one of the queue.
    ///
    /// - Returns: its copy of the layout.
    private func requireOwn(_ shard: JobQueue, _ change: Change) async throws(RedisError) -> String? {
        let number = shard.keys.shard
        let place = "Shard \(number) of the queue \"\(address.queue)\" on \(shard.redis.configuration)"
        if let text = try await shard.layout() {
            guard ShardLayout.parse(text)?.shard == number else {
                throw refusal("\(place) is in use: its key \(shard.keys.layout) is \"\(text.prefix(64))\".")
            }
            if change.stored == nil && !change.acceptsLoss {
                throw refusal(
                    "\(place) exists, but shard 0 on \(address.server(0)) has no layout: it has lost its data, or is "
                        + "not the Redis of the queue. If it has lost its data, add --accept-loss."
                )
            }
            return text
        }
        if number < change.old.count {
            try await requireLost(number, change)
            if change.acceptsLoss { return nil }
            throw refusal(
                "\(place) has nothing of the queue: a server is missing, was added or is named in another place than "
                    + "before, or has lost its data. \(ShardLayout.namingRemedy) Only if it has lost its data, add "
                    + "--accept-loss."
            )
        }
        if try await isUsed(shard) {
            throw refusal(
                "\(place) is in use, as the queue \"\(address.queue):\(number)\". Delete that queue, or choose another "
                    + "name or fewer shards."
            )
        }
        return nil
    }

    private func isUsed(_ shard: JobQueue) async throws(RedisError) -> Bool {
        let keys = shard.keys
        let used = Job.Priority.allCases.map(keys.jobs) + [keys.epoch, keys.workers, keys.stat, keys.batches]
        return try await shard.redis.send(RedisCommand(["EXISTS"] + used.map { .string($0) })).int ?? 0 > 0
    }

    // MARK: -

    private func replace(
        _ expected: String?,
        by text: String,
        in shard: JobQueue,
        _ change: Change
    ) async throws(RedisError) {
        if try await shard.changeLayout(from: expected, to: text) { return }
        throw refusal(
            "Shard \(shard.keys.shard) of the queue \"\(address.queue)\" has been changed meanwhile, perhaps by "
                + "another megaton queue reshard. Run one of them again: megaton queue reshard \(change.new.count)."
        )
    }

    /// Names the step and its shard in an error of Redis, which may name neither. A refusal names its shard itself.
    private func step<Value: Sendable>(
        _ name: String,
        _ shard: JobQueue,
        _ body: () async throws(RedisError) -> Value
    ) async throws(RedisError) -> Value {
        do throws(RedisError) {
            return try await body()
        } catch {
            if error.code == .shardMismatch { throw error }
            // Redis' own texts have no full stop, and a sentence may follow.
            let end = error.message.hasSuffix(".") ? "" : "."
            throw RedisError(
                error.code,
                "\(name) shard \(shard.keys.shard) of the queue \"\(address.queue)\" "
                    + "(\(shard.redis.configuration)) failed: \(error.message)\(end)"
            )
        }
    }

    /// A shard's copy of the layout.
    private func copy(in shard: JobQueue) async throws(RedisError) -> String? {
        try await step("Reading the layout of", shard) { () async throws(RedisError) in try await shard.layout() }
    }

    private static func shards(_ count: Int) -> String { ShardLayout.shards(count) }

    func refusal(_ message: String) -> RedisError { RedisError(.shardMismatch, message) }
}
