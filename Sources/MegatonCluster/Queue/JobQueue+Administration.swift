internal import Foundation
internal import MegatonPipeline
public import MegatonRedis
internal import NIOCore

extension JobQueue {
    /// What holds the whole queue up.
    public enum Brake: String, Sendable, CaseIterable {
        /// Nothing is claimed; what runs goes on to its end.
        case paused
        /// Nothing is admitted; what is admitted goes on to its end, and what is pushed waits in the intake.
        case drain
    }

    /// Sets or clears a brake. It lasts, also over restarts, until it is cleared.
    public func set(_ brake: Brake, _ isOn: Bool) async throws(RedisError) {
        try await redis.run(
            QueueScripts.control,
            keys: [keys.control, keys.wake, keys.intakeWake, keys.workers],
            arguments: [.string(brake.rawValue), isOn ? "1" : "0"]
        )
    }

    /// Jobs that are staged or admitted and have not ended.
    public func alive() async throws(RedisError) -> Int {
        let epoch = try await redis.send(["GET", .string(keys.epoch)]).int ?? 0
        // In the order in which jobs go: one that is admitted between the two is counted twice, and not left out.
        let replies = try await redis.pipeline([
            ["LLEN", .string(keys.stage(epoch: epoch))], ["HLEN", .string(keys.body)],
        ])
        for case .error(let text) in replies { throw RedisError(reply: text) }
        return replies.reduce(0) { $0 + ($1.int ?? 0) }
    }

    /// Milliseconds since 1970, by Redis' clock.
    public func now() async throws(RedisError) -> Int {
        let time = (try await redis.send(["TIME"]).array ?? []).compactMap(\.int)
        guard time.count == 2 else { throw Self.unexpected("TIME") }
        return time[0] * 1000 + time[1] / 1000
    }

    /// Forgets what was counted of the hosts that were asked the least, where twice as many are known as are kept.
    func forgetRareHosts(above kept: Int) async throws(RedisError) {
        guard try await redis.send(["HLEN", .string(keys.statHosts)]).int ?? 0 > 2 * kept else { return }
        let counts = try await redis.send(["HGETALL", .string(keys.statHosts)]).dictionary
        let rare = counts.sorted { (Int($0.value) ?? 0) > (Int($1.value) ?? 0) }.dropFirst(kept)
        try await redis.send(RedisCommand(["HDEL", .string(keys.statHosts)] + rare.map { .string($0.key) }))
    }

    // MARK: - Dead letters

    /// Dead jobs, oldest first, a page at a time.
    ///
    /// - Parameters:
    ///   - offset: how many to leave out.
    ///   - limit: how many to look at.
    public func dead(offset: Int, limit: Int) async throws(RedisError) -> [DeadLetter] {
        let reply = try await redis.send([
            "ZRANGE", .string(keys.dead), .int(offset), .int(offset + limit - 1), "WITHSCORES",
        ])
        let fields = reply.array ?? []
        let entries = stride(from: 0, to: fields.count - 1, by: 2).compactMap { index in
            fields[index].string.map { (id: $0, died: fields[index + 1].string.flatMap(Double.init) ?? 0) }
        }
        if entries.isEmpty { return [] }
        let names = entries.map { RedisArgument.string($0.id) }
        let infos = try await redis.send(RedisCommand(["HMGET", .string(keys.deadInfo)] + names)).array ?? []
        return zip(entries, infos).map { entry, info in DeadLetter(key: entry.id, died: entry.died / 1000, json: info) }
    }

    /// How many jobs are dead.
    public func deadCount() async throws(RedisError) -> Int {
        try await redis.send(["ZCARD", .string(keys.dead)]).int ?? 0
    }

    /// One of an id; nil if there is none. There may be more than one, in different batches: `deadLetters` has them all.
    public func dead(id: String) async throws(RedisError) -> DeadLetter? {
        try await deadLetters(id: id).first
    }

    /// The dead jobs that a submitter named so, in the order of their batches.
    ///
    /// - Parameters:
    ///   - id: as the submitter gave it, or `batch/id`.
    ///   - batch: nil for all batches; empty for jobs without one.
    public func deadLetters(id: String, batch: String? = nil) async throws(RedisError) -> [DeadLetter] {
        let named = JobKey(id)
        let scope = batch ?? named.batch
        // The queue holds 100,000 letters at the most, and their keys are short: all are read in 0.1 s.
        var found: Set<String> = []
        var cursor = "0"
        repeat {
            let reply = try await redis.send([
                "ZSCAN", .string(keys.dead), .string(cursor), "MATCH", .string("*\(Self.escaped(named.id))*"), "COUNT",
                "1000",
            ])
            guard let parts = reply.array, parts.count == 2, let next = parts[0].string else {
                throw Self.unexpected("ZSCAN")
            }
            cursor = next
            found.formUnion(parts[1].dictionary.keys.filter { JobKey($0).id == named.id })
        } while cursor != "0"
        var letters: [DeadLetter] = []
        for key in found.sorted() {
            let replies = try await redis.pipeline([
                ["ZSCORE", .string(keys.dead), .string(key)], ["HGET", .string(keys.deadInfo), .string(key)],
            ])
            for case .error(let text) in replies { throw RedisError(reply: text) }
            // Gone in between.
            guard replies.count == 2, let died = replies[0].string.flatMap(Double.init) else { continue }
            let letter = DeadLetter(key: key, died: died / 1000, json: replies[1])
            if scope == nil || letter.batch ?? "" == scope { letters.append(letter) }
        }
        return letters
    }

    /// A text that a pattern of Redis matches literally.
    private static func escaped(_ text: String) -> String {
        text.reduce(into: "") { $0 += "*?[]^-\\".contains($1) ? "\\\($1)" : "\($1)" }
    }

    /// Takes dead jobs back to the public intake, without the batch that they died in; their ids stay those of that batch,
    /// so that the same id of two batches is two jobs. Their sources are no longer suspected of process deaths: requeueing a
    /// poisoned job is the operator's word that it may run again.
    ///
    /// - Returns: how many; one that is no longer dead, or whose JSON was not kept whole, is left out.
    public func requeue(_ letters: [DeadLetter]) async throws(RedisError) -> Int {
        let triples = letters.flatMap { letter -> [RedisArgument] in
            // Not kept whole, or of another version: it is left out, and the count tells.
            guard var job = try? Job(json: Data(letter.job.job.utf8)) else { return [] }
            job.id = letter.id
            job.batch = nil
            job.requeuedFrom = letter.batch
            // An operator requeues to have the origin asked, not to see the remembered failure again.
            job.ignoresRememberedFailures = true
            return [.string(letter.key), .buffer(ByteBuffer(bytes: job.json())), .string(job.sourceDigest)]
        }
        if triples.isEmpty { return 0 }
        let reply = try await redis.run(
            QueueScripts.requeue,
            keys: [keys.dead, keys.deadInfo, keys.jobs, keys.stat, keys.crashes],
            arguments: triples
        )
        return reply.int ?? 0
    }

    /// Forgets dead jobs.
    ///
    /// - Returns: how many were there.
    public func drop(_ letters: [DeadLetter]) async throws(RedisError) -> Int {
        if letters.isEmpty { return 0 }
        let reply = try await redis.run(
            QueueScripts.drop,
            keys: [keys.dead, keys.deadInfo],
            arguments: letters.map { .string($0.key) }
        )
        return reply.int ?? 0
    }
}
