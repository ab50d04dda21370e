internal import MegatonPipeline
internal import MegatonRedis

/// Leader election: a lease in Redis, with an epoch that grows with each new leader.
///
/// The lease only keeps two leaders from doing the same work. It is safe because `stage`, `replay` and `admit` check
/// the epoch.
struct Leadership: Sendable {
    let queue: JobQueue
    let name: String
    let lease: Duration
    /// Whether it is a fallback, which yields to any regular coordinator.
    var isFallback = false

    /// The name in the lease.
    var holder: String { isFallback ? "reserve:\(name)" : name }

    /// Result of an attempt to lead.
    enum Attempt: Equatable {
        case leads(epoch: Int)
        /// Another process leads; its lease lasts for this time.
        case waits(Duration)
    }

    /// Whether another process leads.
    func hasLeader() async throws(RedisError) -> Bool {
        guard let leader = try await queue.redis.send(["GET", .string(queue.keys.leader)]).string else { return false }
        return leader != holder
    }

    /// Acquires or renews the leader's lease.
    func attempt() async throws(RedisError) -> Attempt {
        let reply = try await queue.redis.run(
            QueueScripts.lead,
            keys: [queue.keys.leader, queue.keys.epoch],
            arguments: [.string(holder), .int(lease.wholeMilliseconds)]
        )
        guard let fields = reply.array, fields.count == 2, let number = fields[1].int else {
            throw JobQueue.unexpected("lead")
        }
        return fields[0].int == 1 ? .leads(epoch: number) : .waits(.milliseconds(max(0, number)))
    }

    /// Acquires or renews the leader's lease.
    ///
    /// - Returns: the epoch, or nil if another process leads.
    func tryToLead() async throws(RedisError) -> Int? {
        guard case .leads(let epoch) = try await attempt() else { return nil }
        return epoch
    }

    /// Releases the leader's lease, so that a stand-by need not wait until it runs out.
    func resign() async throws(RedisError) {
        try await queue.redis.run(QueueScripts.resign, keys: [queue.keys.leader], arguments: [.string(holder)])
    }
}
