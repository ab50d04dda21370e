internal import MegatonPipeline
internal import MegatonRedis

/// Who leads: a lease in Redis with an epoch that grows with each new leader.
///
/// The lease only keeps two from doing the same work; what makes that safe is that every script of the leader checks
/// the epoch.
struct Leadership: Sendable {
    let queue: JobQueue
    let name: String
    let lease: Duration
    /// Gives way to whoever is no reserve.
    var isReserve = false

    /// The name that the lease has.
    var holder: String { isReserve ? "reserve:\(name)" : name }

    /// What an attempt to lead gave.
    enum Attempt: Equatable {
        case leads(epoch: Int)
        /// Somebody else does, for so long at the least.
        case waits(Duration)
    }

    /// Whether somebody else leads.
    func hasLeader() async throws(RedisError) -> Bool {
        guard let leader = try await queue.redis.send(["GET", .string(queue.keys.leader)]).string else { return false }
        return leader != holder
    }

    /// Takes or keeps the lead.
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

    /// Takes or keeps the lead.
    ///
    /// - Returns: the epoch, or nil if somebody else leads.
    func tryToLead() async throws(RedisError) -> Int? {
        guard case .leads(let epoch) = try await attempt() else { return nil }
        return epoch
    }

    /// Gives the lead up, so that a stand-by need not wait for the lease's end.
    func resign() async throws(RedisError) {
        try await queue.redis.run(QueueScripts.resign, keys: [queue.keys.leader], arguments: [.string(holder)])
    }
}
