internal import Foundation
internal import MegatonRedis
internal import NIOCore

/// The calls of `admit` in one round.
extension Intake {
    /// Jobs that one call admits.
    struct Admission {
        var candidates: [JobValidator.Candidate] = []
        /// Number of entries of the stage from which they come.
        var entryCount = 0
    }

    /// Bytes of jobs above which a round admits no further entry of the stage.
    private static let admittedBytes = 1024 * 1024
    /// Number of jobs above which a call admits no further entry: about 10 ms. Redis reads each call in two turns, in
    /// which it serves all other clients, so that a leader with many small calls is slower than a large fleet.
    static let admittedAtOnce = 1536
    /// Bytes of JSON above which it is an argument of its own, see the script.
    private static let largeText = 64 * 1024
    /// Maximum number of calls in a round.
    private static let callsAtOnce = 2

    /// Deduplication settings of each batch.
    func memories(_ batches: [String]) async throws(RedisError) -> [String: Memory] {
        let replies = try await queue.redis.pipeline(
            batches.map { ["HMGET", .string(queue.keys.batch($0)), "deduplicate", "unique"] }
        )
        try Self.checkBatches(replies)
        return zip(batches, replies).reduce(into: [:]) { memories, entry in
            let fields = (entry.1.array ?? []).map(\.string)
            guard fields.count == 2 else { return }
            memories[entry.0] = Memory(deduplicates: fields[0] == "1", idsAreUnique: fields[1] == "1")
        }
    }

    struct Memory {
        /// Whether the batch admits equal jobs only once.
        var deduplicates = false
        /// Whether no id of the batch can occur twice.
        var idsAreUnique = false
    }

    /// The first of the validated jobs, for one round. Packs that are split may become many jobs: the others wait for
    /// the next round.
    func admissions(of validated: [JobValidator.Candidate], _ memories: [String: Memory]) -> [Admission] {
        var (admissions, bytes) = ([Admission()], 0)
        for entry in validated {
            if bytes >= Self.admittedBytes { break }
            if admissions[admissions.count - 1].candidates.count >= Self.admittedAtOnce {
                if admissions.count == Self.callsAtOnce { break }
                admissions.append(Admission())
            }
            let memory = memories[entry.batch] ?? Memory()
            let jobs = entry.admitted(deduplicates: memory.deduplicates, idsAreUnique: memory.idsAreUnique)
            admissions[admissions.count - 1].candidates += jobs
            admissions[admissions.count - 1].entryCount += 1
            bytes += jobs.reduce(0) { $0 + $1.size }
        }
        return admissions
    }

    /// A call of the script `admit`.
    ///
    /// - Parameter tokens: maximum number of wake tokens.
    func admitCall(
        _ part: Admission,
        epoch: Int,
        round: Int,
        tokens: Int,
        _ memories: [String: Memory]
    ) -> Call {
        let keys = queue.keys
        let batches = Set(part.candidates.map(\.batch).filter { !$0.isEmpty }).sorted()
        let number = Dictionary(uniqueKeysWithValues: batches.enumerated().map { ($1, $0 + 1) })
        let entries = part.candidates.map(\.entry)
        let digests = Set(entries.compactMap { $0?.digest }).sorted()
        let entryNumber = Dictionary(uniqueKeysWithValues: digests.enumerated().map { ($1, $0 + 1) })
        var arguments: [RedisArgument] = [
            .string(name), .int(epoch), .int(tokens), .int(round), .int(batches.count), .int(digests.count),
            .int(part.entryCount), .int(waitingLimits.jobs), .int(waitingLimits.bytes),
        ]
        arguments += batches.map { .string($0) }
        var fields: [RedisArgument] = []
        var large: [RedisArgument] = []
        func text(_ json: Data) -> RedisArgument {
            let text = RedisArgument.buffer(ByteBuffer(bytes: json))
            guard json.count > Self.largeText else { return text }
            large.append(text)
            return ""
        }
        fields.reserveCapacity(13 * part.candidates.count)
        for (candidate, entry) in zip(part.candidates, entries) {
            fields += [.string(candidate.key.text)]
            let memory = memories[candidate.batch] ?? Memory()
            var content: String?
            let batch = RedisArgument.int(number[candidate.batch] ?? 0)
            let isOwn: RedisArgument = candidate.isOwn ? "1" : "0"
            switch candidate.verdict {
            case .valid(let job, let json):
                let priority = (Job.Priority.allCases.firstIndex(of: job.priority) ?? 1) + 1
                let digest = memory.deduplicates ? candidate.digest : nil
                content = candidate.batch.isEmpty || memory.idsAreUnique ? nil : candidate.content
                fields += [
                    .string("\(priority)@\(job.sourceDigest)@\(job.host ?? "")"), batch, isOwn,
                    text(json), .buffer(ByteBuffer(bytes: digest ?? Data())),
                ]
            case .pack(let pack, _, _):
                let priority = (Job.Priority.allCases.firstIndex(of: pack.shared.priority) ?? 1) + 1
                fields += [
                    .string("\(priority)@\(pack.digest)@\(pack.host ?? "")"), batch, isOwn,
                    text(pack.json()), "",
                ]
            case .invalid(let dead, let source, let job):
                fields += [
                    "x", batch, isOwn, text(WireJSON.data(dead)),
                    .buffer(ByteBuffer(bytes: candidate.outcome(dead, source: source, job: job).json())),
                ]
            }
            fields += [
                .string(content ?? ""), .string(candidate.labels.map(Job.text) ?? ""),
                .int(entry.flatMap { entryNumber[$0.digest] } ?? 0), .int(entry?.lifetime.wholeMilliseconds ?? 0),
                .int(candidate.notBefore), .string(validator.target(of: candidate.reply)),
                .int(candidate.batchSize ?? 0),
            ]
        }
        arguments.append(.packed(fields))
        arguments += large
        let admitKeys =
            [keys.leader, keys.epoch, keys.stage(epoch: epoch), keys.body, keys.meta] + keys.ready + [
                keys.wake, keys.dead, keys.deadInfo, keys.stat, keys.batches, keys.cancelled, keys.round,
                keys.holding, keys.held, keys.pace, keys.heldBytes, keys.ended, keys.delay, keys.replies,
            ] + batches.flatMap { [keys.batch($0), keys.results($0), keys.known($0)] } + digests.map(keys.once)
        return (admitKeys, arguments)
    }
}
