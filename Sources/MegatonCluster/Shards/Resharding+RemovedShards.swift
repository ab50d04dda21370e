internal import Foundation
internal import MegatonRedis

// The shards that a change removes: nothing that is needed may be lost with them.

extension Resharding {
    /// Maximum number of batches whose names are read at once.
    private static let page = 1000
    /// Maximum number of such pages: room for many more batches than fit into Redis.
    private static let maximumPages = 100_000
    /// Maximum number of batches that a sentence names.
    private static let namedBatches = 10

    /// Checks that nothing is lost without a shard.
    func requireEmpty(_ shard: JobQueue, _ count: Int) async throws(RedisError) {
        var left: [String] = []
        // Before the jobs too: a dead job may be requeued meanwhile.
        var dead = try await shard.deadCount()
        let jobs = try await jobs(in: shard)
        if jobs > 0 { left.append("\(jobs) \(jobs == 1 ? "job that has" : "jobs that have") not ended") }
        let open = try await openBatches(in: shard, count)
        if open > 0 { left.append("\(open) \(open == 1 ? "batch that has" : "batches that have") not ended") }
        dead = max(dead, try await shard.deadCount())
        if dead > 0 { left.append("\(dead) dead \(dead == 1 ? "job" : "jobs")") }
        // Before the webhooks: an outcome moves from the outbox to them.
        let bytes = try await shard.outcomeBytes()
        let webhooks = try await shard.webhookCount()
        if webhooks > 0 { left.append("\(webhooks) \(webhooks == 1 ? "outcome" : "outcomes") for webhooks") }
        if try await bytes > shard.webhookBytes() { left.append("outcomes that no reader has acknowledged") }
        if left.isEmpty { return }
        let advice =
            webhooks == 0
            ? ""
            : "let a coordinator with --webhook-key send the webhooks, or wait for \(WebhookSchedule().hours) h until "
                + "the last is dropped (megaton doctor has their number), "
        throw refusal(
            "Shard \(shard.keys.shard) of the queue \"\(address.queue)\" cannot be removed: it has "
                + "\(left.joined(separator: ", ")). Stop the submitters, wait for the batches (megaton batch wait, "
                + "megaton batch results --ledger), requeue or drop the dead jobs (megaton dead), \(advice)and "
                + "run megaton queue reshard \(count) again."
        )
    }

    /// Number of jobs in any state that is not an end.
    private func jobs(in shard: JobQueue) async throws(RedisError) -> Int {
        let keys = shard.keys
        let stages = (try await shard.redis.send(["SMEMBERS", .string(keys.stages)]).array ?? []).compactMap(\.int)
        let intakes = (try await shard.redis.send(["ZRANGE", .string(keys.intakes), "0", "-1"]).array ?? [])
            .compactMap(\.string)
        // In the order in which jobs move: one that moves meanwhile is counted twice, and never missed.
        let lists = Job.Priority.allCases.map(keys.jobs) + intakes.map(keys.jobs(batch:)) + stages.map(keys.stage)
        let replies = try await shard.redis.pipeline(
            lists.map { ["LLEN", .string($0)] } + [["HLEN", .string(keys.body)]]
        )
        for case .error(let text) in replies { throw RedisError(reply: text) }
        return replies.reduce(0) { $0 + ($1.int ?? 0) }
    }

    /// Number of batches that have not ended. An error is not taken for the end of a batch.
    private func openBatches(in shard: JobQueue, _ count: Int) async throws(RedisError) -> Int {
        // A scan returns each batch that is there all the time, while ranks move when a batch is forgotten. It may
        // return one repeatedly.
        var open: Set<String> = []
        var cursor = "0"
        for _ in 0..<Self.maximumPages {
            let reply = try await shard.redis.send([
                "ZSCAN", .string(shard.keys.batches), .string(cursor), "COUNT", .int(Self.page),
            ])
            guard let parts = reply.array, parts.count == 2, let next = parts[0].string else {
                throw JobQueue.unexpected("ZSCAN")
            }
            try await insertOpen(Array(parts[1].dictionary.keys), of: shard, into: &open, count)
            if next == "0" { return open.count }
            cursor = next
        }
        throw refusal(
            "Shard \(shard.keys.shard) of the queue \"\(address.queue)\" cannot be removed: \(Self.maximumPages) pages "
                + "did not show all of its batches. Stop the submitters, and run megaton queue reshard \(count) again."
        )
    }

    /// Adds the batches that have not ended to a set.
    private func insertOpen(
        _ names: [String],
        of shard: JobQueue,
        into open: inout Set<String>,
        _ count: Int
    ) async throws(RedisError) {
        let keys = names.map { RedisArgument.string(shard.keys.batch($0)) }
        let replies = try await shard.redis.pipeline(
            keys.flatMap { key -> [RedisCommand] in [["HEXISTS", key, "finished"], ["EXISTS", key]] }
        )
        guard replies.count == 2 * names.count else { throw JobQueue.unexpected("EXISTS") }
        for (index, name) in names.enumerated() {
            for case .error(let text) in replies[2 * index...2 * index + 1] {
                let error = RedisError(reply: text)
                throw RedisError(
                    error.code,
                    "It is unknown whether the batch \"\(name)\" has ended: \(error.message). If another program has "
                        + "damaged the key \(shard.keys.batch(name)), delete it. Then run megaton queue reshard "
                        + "\(count) again."
                )
            }
            guard let finished = replies[2 * index].int, let isKnown = replies[2 * index + 1].int else {
                throw JobQueue.unexpected("HEXISTS")
            }
            // A batch without a key was forgotten meanwhile.
            if finished == 0 && isKnown == 1 { open.insert(name) }
        }
    }

    /// The sentence about ended batches of which a removed shard has counted jobs.
    func forgotten(_ batches: [String], in shard: JobQueue) -> String {
        let (count, named) = (batches.count, batches.prefix(Self.namedBatches).joined(separator: ", "))
        let others = count - Self.namedBatches
        return "Shard \(shard.keys.shard) of the queue \"\(address.queue)\" had jobs of "
            + "\(count == Self.page ? "at least " : "")\(count) ended \(count == 1 ? "batch" : "batches") (\(named)"
            + "\(others > 0 ? " and \(others) more" : "")): megaton batch show and megaton status no longer count them."
    }

    /// The newest batches with jobs that a shard has counted, at most a page of them.
    func endedBatches(in shard: JobQueue) async throws(RedisError) -> [String] {
        let last = RedisArgument.int(Self.page - 1)
        let reply = try await shard.redis.send(["ZRANGE", .string(shard.keys.batches), "0", last, "REV"])
        let names = (reply.array ?? []).compactMap(\.string)
        let replies = try await shard.redis.pipeline(
            names.map { ["HMGET", .string(shard.keys.batch($0)), "done", "failed", "cancelled"] }
        )
        for case .error(let text) in replies { throw RedisError(reply: text) }
        return zip(names, replies).filter { _, counts in (counts.array ?? []).contains { $0.int ?? 0 > 0 } }.map(\.0)
    }
}
