public import MegatonRedis

/// Looks for what a queue must not hold, and mends it when told to.
///
/// An id must have a body and a meta and be in exactly one of ready, lease and delay, or be nowhere but in dead. The
/// scripts see to that; what they cannot prevent is a hand in Redis, or a failover to a replica that lagged.
///
/// The queue goes on meanwhile. It is read in pages, and since jobs move between two pages, what is seen so is a
/// suspicion and no more: each suspect is then examined, and mended, by a script that sees it at one moment. Only what
/// the script says counts.
public struct QueueAudit: Sendable {
    let queue: JobQueue

    /// Ids that are looked at, at the most: twice what the largest window of a coordinator lets in. Some 100 bytes each.
    private static let idLimit = 262_144
    /// Suspects of one call.
    private static let suspectsAtOnce = 100
    /// Entries of the ready lists that one call compares at the most: 7 ms of Redis' time.
    private static let comparisonsAtOnce = 500_000

    public init(queue: JobQueue) {
        self.queue = queue
    }

    /// Looks at the whole queue.
    ///
    /// - Parameter repair: whether what is found is mended.
    public func run(repair: Bool = false) async throws(RedisError) -> Report {
        let sightings = try await sightings(limit: Self.idLimit)
        var report = Report(examined: sightings.count, isComplete: sightings.isComplete)
        try await examine(sightings.suspects, repair: repair, into: &report)
        try await examineStages(repair: repair, into: &report)
        try await examineIntakes(repair: repair, into: &report)
        return report
    }

    // MARK: - Jobs

    private func examine(
        _ suspects: [String],
        repair: Bool,
        into report: inout Report
    ) async throws(RedisError) {
        var rest = suspects[...]
        while !rest.isEmpty {
            let size = try await suspectsOfNextCall()
            let faults = try await audit(rest.prefix(size).map { ($0, "") }, repair: false)
            rest = rest.dropFirst(size)
            report.add(faults)
            if !repair || faults.isEmpty { continue }
            // The batches are known only now, and a script names its keys. It confirms each fault anew.
            let batches = Dictionary(faults.map { ($0.id, $0.batch) }) { first, _ in first }
            report.repaired += try await audit(batches.map { ($0.key, $0.value) }, repair: true).count
        }
    }

    /// Fewer where much is ready: to find an id there means to look at all of them.
    private func suspectsOfNextCall() async throws(RedisError) -> Int {
        let lists = queue.keys.ready + [queue.keys.suspects]
        let replies = try await queue.redis.pipeline(lists.map { ["LLEN", .string($0)] })
        for case .error(let text) in replies { throw RedisError(reply: text) }
        let ready = replies.reduce(0) { $0 + ($1.int ?? 0) }
        return max(1, min(Self.suspectsAtOnce, Self.comparisonsAtOnce / max(1, ready)))
    }

    private func audit(_ jobs: [(id: String, batch: String)], repair: Bool) async throws(RedisError) -> [Fault] {
        let keys = queue.keys
        let batches = Set(jobs.map { $0.batch }.filter { !$0.isEmpty }).sorted()
        let number = Dictionary(uniqueKeysWithValues: batches.enumerated().map { ($1, $0 + 1) })
        var arguments: [RedisArgument] = [repair ? "1" : "0", .int(batches.count)]
        arguments += batches.map { .string($0) }
        arguments += jobs.flatMap { job -> [RedisArgument] in [.string(job.id), .int(number[job.batch] ?? 0)] }
        let reply = try await queue.redis.run(
            QueueScripts.audit,
            keys: [keys.body, keys.meta] + keys.ready + [
                keys.lease, keys.delay, keys.dead, keys.deadInfo, keys.wake, keys.stat, keys.suspects,
            ] + batches.flatMap { [keys.batch($0), keys.results($0), keys.seen($0)] },
            arguments: arguments
        )
        return try (reply.array ?? []).map { entry throws(RedisError) in
            guard let fields = entry.array?.map({ $0.string ?? "" }), fields.count == 4,
                let kind = Kind(rawValue: fields[1])
            else { throw JobQueue.unexpected("audit") }
            return Fault(id: fields[0], kind: kind, places: fields[2], batch: fields[3])
        }
    }
}
