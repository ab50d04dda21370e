package import MegatonRedis

/// Finds inconsistencies of a queue, and repairs them on request.
///
/// An id must have a body and a meta and be in exactly one of ready, lease, delay and holding, or be nowhere but in
/// dead. The scripts ensure that; they cannot prevent manual changes in Redis, or a failover to a replica that lagged.
///
/// The queue keeps running meanwhile. It is read in pages, and jobs move between two pages, so that these reads find
/// only candidates. A script then examines each candidate atomically, and repairs it; only its result counts.
package struct QueueAudit: Sendable {
    let queue: JobQueue

    /// Maximum number of ids examined, some 100 bytes each: more than are ready or running. If more are held or
    /// delayed, the audit is not complete, and its report says so.
    private static let idLimit = 262_144
    /// Maximum number of candidates in one call.
    private static let candidatesAtOnce = 100
    /// Maximum number of ready entries that one call compares: 7 ms of Redis' time.
    private static let comparisonsAtOnce = 500_000

    package init(queue: JobQueue) {
        self.queue = queue
    }

    /// Audits the whole queue.
    ///
    /// - Parameter repair: whether faults are repaired.
    package func run(repair: Bool = false) async throws(RedisError) -> Report {
        let sightings = try await sightings(limit: Self.idLimit)
        var report = Report(examined: sightings.count, isComplete: sightings.isComplete)
        try await examine(sightings.candidates, repair: repair, into: &report)
        try await examineStages(repair: repair, into: &report)
        try await examineIntakes(repair: repair, into: &report)
        return report
    }

    // MARK: - Jobs

    private func examine(
        _ candidates: [String],
        repair: Bool,
        into report: inout Report
    ) async throws(RedisError) {
        var rest = candidates[...]
        while !rest.isEmpty {
            let size = try await candidatesOfNextCall()
            let faults = try await audit(rest.prefix(size).map { Candidate(id: $0) }, repair: false)
            rest = rest.dropFirst(size)
            report.add(faults)
            if !repair || faults.isEmpty { continue }
            // Batches and idempotency keys are known only now, and a script must name its keys. It confirms each fault
            // again.
            let found = Dictionary(faults.map { ($0.id, $0) }) { first, _ in first }.values
            report.repaired += try await audit(found.map(Candidate.init), repair: true).count
        }
    }

    /// Number of candidates in the next call: fewer if many jobs are ready, as the search for an id scans all ready
    /// lists.
    private func candidatesOfNextCall() async throws(RedisError) -> Int {
        let lists = queue.keys.ready + [queue.keys.suspects]
        let replies = try await queue.redis.pipeline(lists.map { ["LLEN", .string($0)] })
        for case .error(let text) in replies { throw RedisError(reply: text) }
        let ready = replies.reduce(0) { $0 + ($1.int ?? 0) }
        return max(1, min(Self.candidatesAtOnce, Self.comparisonsAtOnce / max(1, ready)))
    }

    /// A job to examine, with what is known of it.
    private struct Candidate {
        let id: String
        var batch = ""
        /// Digest of its idempotency key.
        var once: String?

        init(id: String) { self.id = id }

        init(_ fault: Fault) {
            (id, batch) = (fault.id, fault.batch)
            once = fault.key.isEmpty ? nil : IdempotencyEntry.digest(of: fault.key)
        }
    }

    private func audit(_ jobs: [Candidate], repair: Bool) async throws(RedisError) -> [Fault] {
        let keys = queue.keys
        let batches = Set(jobs.map { $0.batch }.filter { !$0.isEmpty }).sorted()
        let number = Dictionary(uniqueKeysWithValues: batches.enumerated().map { ($1, $0 + 1) })
        let digests = Set(jobs.compactMap(\.once)).sorted()
        let onceNumber = Dictionary(uniqueKeysWithValues: digests.enumerated().map { ($1, $0 + 1) })
        var arguments: [RedisArgument] = [repair ? "1" : "0", .int(batches.count), .int(digests.count)]
        arguments += batches.map { .string($0) }
        arguments += jobs.flatMap { job -> [RedisArgument] in
            [.string(job.id), .int(number[job.batch] ?? 0), .int(job.once.flatMap { onceNumber[$0] } ?? 0)]
        }
        let reply = try await queue.redis.run(
            QueueScripts.audit,
            keys: [keys.body, keys.meta] + keys.ready + [
                keys.lease, keys.delay, keys.dead, keys.deadInfo, keys.wake, keys.stat, keys.suspects,
                keys.holding, keys.ended, keys.heldBytes, keys.replies,
            ] + batches.flatMap { [keys.batch($0), keys.results($0), keys.known($0)] } + digests.map(keys.once),
            arguments: arguments
        )
        return try (reply.array ?? []).map { entry throws(RedisError) in
            guard let fields = entry.array?.map({ $0.string ?? "" }), fields.count == 5,
                let kind = Kind(rawValue: fields[1])
            else { throw JobQueue.unexpected("audit") }
            return Fault(id: fields[0], kind: kind, places: fields[2], batch: fields[3], key: fields[4])
        }
    }
}
