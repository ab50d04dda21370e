internal import MegatonPipeline
internal import MegatonRedis

/// Leader election: a lease in Redis, with an epoch that grows with each new leader.
///
/// The lease only keeps two leaders from doing the same work. It is safe because `publish`, `stage`, `replay` and
/// `admit` check the epoch.
struct Leadership: Sendable {
    let queue: JobQueue
    let name: String
    let lease: Duration
    /// Whether it is a fallback, which yields to any regular coordinator.
    var isFallback = false

    /// Begins the names of fallbacks in the lease; the script `lead` has it too.
    private static let fallbackPrefix = "reserve:"

    /// The name in the lease.
    var holder: String { isFallback ? Self.fallbackPrefix + name : name }

    /// Whether a name in the lease is that of a fallback, a worker that leads for want of a coordinator.
    static func isFallback(_ holder: String) -> Bool { holder.hasPrefix(fallbackPrefix) }

    /// The name in the lease of protocol 1, which keeps coordinators of 0.1 and 0.2 from leading.
    private var formerHolder: String { "protocol-\(QueueKeys.version):\(holder)" }
    /// The lease of protocol 1 outlasts the leader's, so that a successor of this protocol, which may be a fallback
    /// that waits for some seconds, is faster than a coordinator of protocol 1, which takes a free lease at once.
    private var formerLease: Duration { lease * 3 }
    private var versions: String { "\(QueueKeys.version) \(Megaton.version)" }

    /// Result of an attempt to lead.
    enum Attempt: Equatable {
        case leads(epoch: Int)
        /// Another process leads, of this protocol or of protocol 1; its lease lasts for this time.
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
            keys: [queue.keys.leader, queue.keys.epoch, queue.keys.formerLeader, queue.keys.coordinators],
            arguments: [
                .string(holder), .int(lease.wholeMilliseconds), .string(formerHolder),
                .int(formerLease.wholeMilliseconds),
                .string(isFallback ? "" : versions),
            ]
        )
        guard let fields = reply.array, fields.count == 2, let number = fields[1].int else {
            throw JobQueue.unexpected("lead")
        }
        if fields[0].int == 1 { return .leads(epoch: number) }
        // A lease without an end was written by hand.
        return .waits(number < 0 ? lease : .milliseconds(number))
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
        try await queue.redis.run(
            QueueScripts.resign,
            keys: [queue.keys.leader, queue.keys.coordinators],
            arguments: [.string(holder), .string("\(holder) \(versions)")]
        )
    }
}
