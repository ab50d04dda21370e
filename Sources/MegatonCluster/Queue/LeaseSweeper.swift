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
    /// Decides how often a worker looks while other processes sweep.
    var pace = IdlePace()

    /// Sweeps until the task is cancelled.
    func run() async {
        await repeating {
            let (pause, isIdle) = await sweep()
            guard isIdle else { return pause }
            await pace.sleep(pause)
            return .zero
        }
    }

    /// - Returns: the pause before the next sweep, and whether the pace decides by how much it is longer.
    private func sweep() async -> (pause: Duration, isIdle: Bool) {
        do throws(RedisError) {
            let swept: Int
            let pause: Duration
            var isIdle = false
            switch role {
            case .leader: (swept, pause) = try await queue.sweepAsLeader()
            case .worker(let interval):
                (swept, pause, isIdle) = try await queue.sweepInTurn(every: interval)
            }
            if swept > 0 {
                logger.warning("leases expired; their jobs are ready again", metadata: [LogKey.count: "\(swept)"])
            }
            return (pause, isIdle)
        } catch {
            logger.debug("cannot sweep expired leases", metadata: [LogKey.error: "\(error)"])
            return switch role {
            case .leader: (JobQueue.leadersSweep, false)
            case .worker(let interval): (interval, false)
            }
        }
    }
}
