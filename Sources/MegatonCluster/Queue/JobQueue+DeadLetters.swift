internal import Foundation
package import MegatonRedis
internal import NIOCore

extension JobQueue {
    /// Bytes above which a page has no further letter.
    private static let pageBytes = 8 * 1024 * 1024

    /// Dead letters, oldest first, one page at a time.
    ///
    /// - Parameters:
    ///   - offset: number of letters to skip.
    ///   - limit: maximum number of letters to read.
    /// - Returns: as many as have 8 MiB, or one. It is empty only if there are no more: the next page begins behind the
    ///   letters that were returned.
    package func deadLetters(offset: Int, limit: Int) async throws(RedisError) -> [DeadLetter] {
        let reply = try await redis.send([
            "ZRANGE", .string(keys.dead), .int(offset), .int(offset + limit - 1), "WITHSCORES",
        ])
        let fields = reply.array ?? []
        var entries = stride(from: 0, to: fields.count - 1, by: 2).compactMap { index in
            fields[index].string.map { (id: $0, died: fields[index + 1].string.flatMap(Double.init) ?? 0) }
        }
        if entries.isEmpty { return [] }
        entries = Array(entries.prefix(try await lettersOfPage(entries.map(\.id))))
        let names = entries.map { RedisArgument.string($0.id) }
        let infos = try await redis.send(RedisCommand(["HMGET", .string(keys.deadInfo)] + names)).array ?? []
        return zip(entries, infos).map { entry, info in
            DeadLetter(key: entry.id, died: entry.died / 1000, json: info, shard: keys.shard)
        }
    }

    /// The number of letters that one page has: a reply with the JSON of all might be too large to be read.
    private func lettersOfPage(_ ids: [String]) async throws(RedisError) -> Int {
        let sizes = try await redis.pipeline(ids.map { ["HSTRLEN", .string(keys.deadInfo), .string($0)] })
        var (count, bytes) = (0, 0)
        for size in sizes {
            if case .error(let text) = size { throw RedisError(reply: text) }
            bytes += size.int ?? 0
            if count > 0 && bytes > Self.pageBytes { break }
            count += 1
        }
        return count
    }

    /// Number of dead jobs.
    package func deadCount() async throws(RedisError) -> Int {
        try await redis.send(["ZCARD", .string(keys.dead)]).int ?? 0
    }

    /// A dead letter with this id; nil if there is none. There may be several, in different batches: `deadLetters`
    /// returns all.
    package func deadLetter(id: String) async throws(RedisError) -> DeadLetter? {
        try await deadLetters(id: id).first
    }

    /// Dead letters with this id, ordered by batch.
    ///
    /// - Parameters:
    ///   - id: the submitter's id, or `batch/id`.
    ///   - batch: nil for all batches; empty for jobs without a batch.
    package func deadLetters(id: String, batch: String? = nil) async throws(RedisError) -> [DeadLetter] {
        let named = JobKey(id)
        let scope = batch ?? named.batch
        // The queue holds at most 100,000 letters, and their keys are short: reading all takes 0.1 s.
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
            // Deleted in between.
            guard replies.count == 2, let died = replies[0].string.flatMap(Double.init) else { continue }
            let letter = DeadLetter(key: key, died: died / 1000, json: replies[1], shard: keys.shard)
            if scope == nil || letter.batch ?? "" == scope { letters.append(letter) }
        }
        return letters
    }

    /// Escapes a text so that a Redis pattern matches it literally.
    private static func escaped(_ text: String) -> String {
        text.reduce(into: "") { $0 += "*?[]^-\\".contains($1) ? "\\\($1)" : "\($1)" }
    }

    /// Bytes above which one call of `requeue` moves no further letter: Redis serves no other client meanwhile.
    private static let requeuedBytes = 512 * 1024

    /// Moves dead jobs back to the public intake, without the batch that they died in. Their ids stay in the scope of
    /// that batch, so that the same id of two batches is still two jobs. Their sources are no longer suspected of
    /// process deaths: by requeueing a poisoned job, the operator allows it to run again.
    ///
    /// It makes several calls for many bytes. After an error, the letters of the calls before are requeued, and the
    /// call may be repeated.
    ///
    /// - Returns: number of requeued jobs. A job that is no longer dead, whose JSON was not kept whole, or is longer
    ///   than `Job.maximumSize` now that it is in its full form, is skipped.
    package func requeue(_ letters: [DeadLetter]) async throws(RedisError) -> Int {
        var (requeued, bytes) = (0, 0)
        var arguments: [RedisArgument] = []
        for letter in letters {
            // It is skipped, as the returned count shows. The intake would cut a longer one, and its letter would be
            // gone.
            guard let job = Self.requeued(letter) else { continue }
            let size = letter.key.utf8.count + job.json.count + job.digest.utf8.count
            if !arguments.isEmpty && bytes + size > Self.requeuedBytes {
                requeued += try await requeue(arguments)
                (arguments, bytes) = ([], 0)
            }
            arguments += [.string(letter.key), .buffer(ByteBuffer(bytes: job.json)), .string(job.digest)]
            bytes += size
        }
        return arguments.isEmpty ? requeued : requeued + (try await requeue(arguments))
    }

    /// - Parameter arguments: three for each letter.
    private func requeue(_ arguments: [RedisArgument]) async throws(RedisError) -> Int {
        let reply = try await redis.run(
            QueueScripts.requeue,
            keys: [keys.dead, keys.deadInfo, keys.jobs, keys.stat, keys.crashes],
            arguments: arguments
        )
        return reply.int ?? 0
    }

    /// The job of a letter as it is pushed again, and the digest of its source; nil if its JSON cannot be read,
    /// or is longer than the intake accepts.
    private static func requeued(_ letter: DeadLetter) -> (json: Data, digest: String)? {
        let json = Data(letter.content.job.utf8)
        // A whole pack dies only if the keys of its batch, or its own JSON, are damaged.
        var pack = try? Pack(json: json)
        guard var job = try? pack?.shared ?? Job(json: json) else { return nil }
        job.id = letter.id
        (job.batch, job.batchSize) = (nil, nil)
        job.requeuedFrom = letter.batch
        // The key and the trace belong to the attempt that failed.
        (job.idempotencyKey, job.idempotencyTTL, job.notBefore) = (nil, nil, nil)
        job.traceparent = nil
        // An operator requeues to have the origin asked again, not to get the remembered failure.
        job.ignoresRememberedFailures = true
        pack?.shared = job
        let pushed = pack?.json() ?? job.json()
        return pushed.count <= Job.maximumSize ? (pushed, job.sourceDigest) : nil
    }

    /// Deletes dead letters.
    ///
    /// - Returns: number of letters that existed.
    package func drop(_ letters: [DeadLetter]) async throws(RedisError) -> Int {
        if letters.isEmpty { return 0 }
        let reply = try await redis.run(
            QueueScripts.drop,
            keys: [keys.dead, keys.deadInfo, keys.stat],
            arguments: letters.map { .string($0.key) }
        )
        return reply.int ?? 0
    }
}
