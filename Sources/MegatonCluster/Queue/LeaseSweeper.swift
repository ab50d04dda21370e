internal import Logging
internal import MegatonRedis

/// Sweeps expired leases, so that the jobs of dead workers become ready again, until its task is cancelled.
///
/// The leader sweeps often. A worker only checks whether the leader or another worker has swept a moment ago, and
/// sweeps if neither has.
struct LeaseSweeper: Sendable {
    /// The process that sweeps.
    enum Role: Sendable {
        case leader
        /// - Parameter interval: time between two sweeps if this worker is the only one.
        case worker(interval: Duration)
    }

    let queue: JobQueue
    let role: Role
    let logger: Logger
    /// Factor of the pauses of a worker while other processes sweep: more than 1 if it has several shards.
    var idleFactor: @Sendable () -> Int = { 1 }

    /// Sweeps until the task is cancelled.
    func run() async {
        await repeating { await sweep() }
    }

    /// - Returns: the pause before the next sweep.
    private func sweep() async -> Duration {
        do throws(RedisError) {
            let swept: Int
            let pause: Duration
            switch role {
            case .leader: (swept, pause) = try await queue.sweepAsLeader()
            case .worker(let interval):
                (swept, pause) = try await queue.sweepInTurn(every: interval, idleFactor: idleFactor())
            }
            if swept > 0 {
                logger.warning("leases expired; their jobs are ready again", metadata: [LogKey.count: "\(swept)"])
            }
            return pause
        } catch {
            logger.debug("cannot sweep expired leases", metadata: [LogKey.error: "\(error)"])
            return switch role {
            case .leader: JobQueue.leadersSweep
            case .worker(let interval): interval
            }
        }
    }
}
