package import MegatonRedis

/// Processes and jobs of protocol 1, that of Megaton 0.1 and 0.2, on the Redis of a queue.
///
/// Their keys have no version in their names, except that both protocols share the public list `jobs`.
package struct FormerProtocol: Sendable, Equatable {
    /// Name of the leader, which may be a coordinator or the fallback of a worker.
    package var leader: String?
    /// Names of the workers whose last heartbeat is at most three intervals old.
    package var workers: [String] = []
    /// Jobs that are ready, running or delayed.
    package var admitted = 0
    /// Jobs that its leader has taken and not admitted.
    package var staged = 0
    /// Jobs in the intakes of batches.
    package var waiting = 0

    /// Maximum number of workers, and of batches with an intake, that are read.
    private static let limit = 1000
    /// Maximum number of epochs with a stage that are read.
    private static let stagesLimit = 100
    /// Maximum number of workers in a message.
    private static let shown = 3

    package var hasProcesses: Bool { leader != nil || !workers.isEmpty }
    package var jobs: Int { admitted + staged + waiting }
    package var isEmpty: Bool { !hasProcesses && jobs == 0 }

    /// The processes and the jobs, as parts of a sentence.
    package var parts: [String] {
        var parts: [String] = []
        if let leader { parts.append("\(leader) leads") }
        if !workers.isEmpty {
            let names = workers.prefix(Self.shown).joined(separator: ", ") + (workers.count > Self.shown ? ", …" : "")
            parts.append("\(workers.count) \(workers.count == 1 ? "worker is" : "workers are") running (\(names))")
        }
        if admitted + staged > 0 {
            parts.append("\(admitted + staged) admitted \(admitted + staged == 1 ? "job has" : "jobs have") not ended")
        }
        if waiting > 0 { parts.append("\(waiting) \(waiting == 1 ? "job of a batch waits" : "jobs of batches wait")") }
        return parts
    }
}

extension JobQueue {
    /// Reads the processes and jobs of protocol 1. A key of another type counts as empty.
    package func former() async throws(RedisError) -> FormerProtocol {
        try await FormerProtocol(reading: self)
    }

    /// Living workers: those whose last heartbeat is at most three of their intervals old.
    ///
    /// - Parameters:
    ///   - beats: each worker's last heartbeat, ms.
    ///   - infos: each worker's entry in `workerinfo`.
    ///   - now: time of Redis, ms.
    static func living(_ beats: [String: String], _ infos: [String: String], now: Int) -> [String] {
        beats.keys.sorted().filter { name in
            let renewal = infos[name].flatMap { WorkerInfo(stored: $0) }?.renewal ?? 5
            return Double(now) - (beats[name].flatMap(Double.init) ?? 0) <= 3000 * renewal
        }
    }
}

extension FormerProtocol {
    fileprivate init(reading queue: JobQueue) async throws(RedisError) {
        let keys = queue.keys
        func key(_ name: String) -> RedisArgument { .string(keys.former(name)) }
        let replies = try await queue.redis.pipeline([
            ["GET", .string(keys.formerLeader)],
            ["ZRANGE", key("workers"), "0", .int(Self.limit - 1), "REV", "WITHSCORES"],
            ["HLEN", key("body")], ["SMEMBERS", key("stages")], ["ZRANGE", key("intakes"), "0", .int(Self.limit - 1)],
        ])
        try Self.check(replies)
        guard replies.count == 5 else { throw JobQueue.unexpected("former") }
        // The leader of this protocol holds the lease under such a name.
        if let name = replies[0].string, !name.hasPrefix("protocol-") { leader = name }
        let beats = replies[1].dictionary
        if !beats.isEmpty {
            let names = beats.keys.sorted()
            let reply = try await queue.redis.send(
                RedisCommand(["HMGET", key("workerinfo")] + names.map { .string($0) })
            )
            let infos = zip(names, reply.array ?? []).compactMap { name, info in info.string.map { (name, $0) } }
            let now = try await queue.now()
            workers = JobQueue.living(beats, Dictionary(uniqueKeysWithValues: infos), now: now)
        }
        admitted = replies[2].int ?? 0
        let stages = (replies[3].array ?? []).compactMap(\.string).prefix(Self.stagesLimit)
        let intakes = (replies[4].array ?? []).compactMap(\.string)
        let lists = stages.map { key("stage:\($0)") } + intakes.map { key("jobs:\($0)") }
        if lists.isEmpty { return }
        let lengths = try await queue.redis.pipeline(lists.map { ["LLEN", $0] })
        try Self.check(lengths)
        staged = lengths.prefix(stages.count).reduce(0) { $0 + ($1.int ?? 0) }
        waiting = lengths.dropFirst(stages.count).reduce(0) { $0 + ($1.int ?? 0) }
    }

    private static func check(_ replies: [RedisValue]) throws(RedisError) {
        for case .error(let text) in replies where !text.hasPrefix("WRONGTYPE") { throw RedisError(reply: text) }
    }
}
