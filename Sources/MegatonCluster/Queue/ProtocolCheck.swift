internal import Logging
package import MegatonRedis

/// Keeps a process away from a queue whose processes speak another protocol.
///
/// A worker or coordinator checks when it starts, every minute while it works, and each second while that fails, so
/// that it checks again as soon as Redis has come back, perhaps with other data.
package struct ProtocolCheck: Sendable {
    let queue: JobQueue
    let logger: Logger

    /// Protocols that this program speaks.
    static let spoken = QueueKeys.version...QueueKeys.version
    /// Interval between two checks.
    static let interval: Duration = .seconds(60)
    /// Interval after a check that failed.
    static let retryInterval: Duration = .seconds(1)

    /// Checks that this process may join the queue, and records the protocol of a queue that has none.
    ///
    /// Beside living processes of this protocol a start cannot harm: they hold the lease of protocol 1 too. Otherwise
    /// processes and jobs of protocol 1 must be gone, as this program does not read them.
    ///
    /// - Throws: `.incompatibleVersion` with the reason and how to upgrade.
    package func start() async throws(RedisError) {
        let range = try await queue.redis.send(["GET", .string(queue.keys.protocolRange)]).string
        try Self.check(range, queue: queue.keys)
        let former = try await queue.former()
        if !former.isEmpty {
            guard try await hasProcesses() else { throw Self.refusal(former, queue: queue.keys) }
            report(former)
        }
        try await join()
    }

    /// Repeats the check until the task is cancelled.
    ///
    /// - Parameters:
    ///   - interval: the time between two checks.
    ///   - reportsFormer: whether processes of protocol 1 that start later are logged. One kind of process is enough.
    /// - Returns: the reason for which this process must end; nil if the task was cancelled.
    func run(every interval: Duration = Self.interval, reportsFormer: Bool) async -> RedisError? {
        var refusal: RedisError?
        var wasReported = true  // By `start`.
        await repeating(after: interval) {
            do throws(RedisError) {
                try await join()
                guard reportsFormer else { return interval }
                let former = try await queue.former()
                if !wasReported && !former.isEmpty { report(former) }
                wasReported = !former.isEmpty
                return interval
            } catch {
                if error.code == .incompatibleVersion {
                    logger.critical("this process must end", metadata: [LogKey.error: "\(error)"])
                    refusal = error
                    return nil
                }
                logger.debug("cannot check the protocol of the queue", metadata: [LogKey.error: "\(error)"])
                return min(interval, Self.retryInterval)
            }
        }
        return refusal
    }

    /// Records the protocol, unless the queue has one, and checks it: it is missing if Redis has lost its data, too.
    private func join() async throws(RedisError) {
        let reply = try await queue.redis.run(
            QueueScripts.joinProtocol,
            keys: [queue.keys.protocolRange],
            arguments: [.string("\(Self.spoken.lowerBound)-\(Self.spoken.upperBound)")]
        )
        try Self.check(reply.string, queue: queue.keys)
    }

    /// Whether a process of this protocol is living.
    private func hasProcesses() async throws(RedisError) -> Bool {
        if try await queue.redis.send(["GET", .string(queue.keys.leader)]).string != nil { return true }
        let beats = try await queue.redis.send(["ZRANGE", .string(queue.keys.workers), "0", "-1", "WITHSCORES"])
            .dictionary
        if beats.isEmpty { return false }
        let infos = try await queue.redis.send(["HGETALL", .string(queue.keys.workerInfo)]).dictionary
        return !JobQueue.living(beats, infos, now: try await queue.now()).isEmpty
    }

    private func report(_ former: FormerProtocol) {
        logger.warning(
            "processes or jobs of Megaton 0.1 or 0.2 are on this queue; they wait and share no job with this version",
            metadata: ["former": "\(former.parts.joined(separator: "; "))", LogKey.queue: "\(queue.keys.queue)"]
        )
    }

    // MARK: - Messages

    /// Checks that the queue's range, if it has one, contains a protocol that this program speaks.
    static func check(_ text: String?, queue: QueueKeys) throws(RedisError) {
        guard let text else { return }
        let bounds = text.split(separator: "-", omittingEmptySubsequences: false).map { Int($0) }
        if bounds.count == 2, let low = bounds[0], let high = bounds[1], low <= high, spoken.overlaps(low...high) {
            return
        }
        throw RedisError(
            .incompatibleVersion,
            "The processes of the queue \"\(queue.queue)\" speak protocol \(text.prefix(32)), and this program, "
                + "Megaton \(Megaton.version), speaks \(spoken.lowerBound). Install the version of the other processes "
                + "here. To change the version of the queue, drain it, stop its processes and delete "
                + "\(queue.protocolRange); see docs/upgrading.md."
        )
    }

    private static func refusal(_ former: FormerProtocol, queue: QueueKeys) -> RedisError {
        var steps: [String] = []
        if former.waiting > 0 { steps.append("wait for its batches (megaton batch list, megaton batch wait NAME)") }
        if former.jobs > 0 || former.hasProcesses { steps.append("run megaton queue drain --wait") }
        steps.append("stop its workers and coordinators")
        return RedisError(
            .incompatibleVersion,
            "The queue \"\(queue.queue)\" is in use by Megaton 0.1 or 0.2, whose jobs this version does not read: "
                + "\(former.parts.joined(separator: "; ")). With the program of that version, "
                + (former.hasProcesses ? "" : "start a coordinator and a worker, ")
                + "\(steps.joined(separator: ", ")), and start this one again. Entries of killed processes expire "
                + "after three heartbeats. Jobs that are pushed to \(queue.jobs) meanwhile wait there. See "
                + "docs/upgrading.md."
        )
    }
}
