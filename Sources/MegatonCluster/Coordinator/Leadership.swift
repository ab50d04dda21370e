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

    /// Whether anybody leads.
    func hasLeader() async throws(RedisError) -> Bool {
        try await queue.redis.send(["EXISTS", .string(queue.keys.leader)]).int == 1
    }

    /// Takes or keeps the lead.
    ///
    /// - Returns: the epoch, or nil if somebody else leads.
    func tryToLead() async throws(RedisError) -> Int? {
        let reply = try await queue.redis.run(
            QueueScripts.lead,
            keys: [queue.keys.leader, queue.keys.epoch],
            arguments: [.string(holder), .int(lease.wholeMilliseconds)]
        )
        guard let fields = reply.array, fields.count == 2, let number = fields[1].int else {
            throw JobQueue.unexpected("lead")
        }
        return fields[0].int == 1 ? number : nil
    }

    /// Gives the lead up, so that a stand-by need not wait for the lease's end.
    func resign() async throws(RedisError) {
        try await queue.redis.run(QueueScripts.resign, keys: [queue.keys.leader], arguments: [.string(holder)])
    }
}
