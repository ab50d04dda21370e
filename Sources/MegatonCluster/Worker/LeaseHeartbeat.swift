internal import Foundation
internal import Logging
internal import MegatonPipeline
internal import MegatonRedis
import Synchronization

/// Lease heartbeat: renews the leases of all running jobs in one script call, and stops jobs whose lease is lost.
///
/// It has its own connection and event loop, so that nothing else in the worker can delay it. A job whose lease cannot
/// be renewed in time is stopped before another worker can claim it: the time counts from before the last successful
/// renewal was sent, by this process's own monotonic clock.
struct LeaseHeartbeat: Sendable {
    let queue: JobQueue
    let worker: String
    let info: WorkerInfo
    let running: RunningJobs
    let lease: Duration
    let interval: Duration
    let statistics: StatisticsRecorder
    /// Learns the size of the fleet.
    var pace = IdlePace()
    /// The worker's places; nil for those of one shard.
    var places: WorkerPlaces?
    let logger: Logger
    /// The ends of renewals.
    let pulse = Pulse()
    private let description = Description()

    /// The description of this worker that Redis has.
    private final class Description: Sendable {
        private let state = Mutex<(running: Int, problem: String?, at: ContinuousClock.Instant)?>(nil)

        /// It is also written again after this time, as Redis may have returned to an earlier state.
        private static let lifetime: Duration = .seconds(60)

        /// Whether it has to be written.
        func isChanged(_ running: Int, _ problem: String?, at now: ContinuousClock.Instant) -> Bool {
            state.withLock { state in
                guard let state else { return true }
                return state.running != running || state.problem != problem || now - state.at >= Self.lifetime
            }
        }

        func written(_ running: Int, _ problem: String?, at now: ContinuousClock.Instant) {
            state.withLock { $0 = (running, problem, now) }
        }
    }

    /// How long a job may run after its claim or renewal was sent: two seconds less than the lease, or half of a lease
    /// below four seconds.
    static func validity(of lease: Duration) -> Duration { max(lease - .seconds(2), lease / 2) }

    /// The configured interval, but at most a third of the lease: if one renewal fails, the next still comes before
    /// jobs are stopped.
    static func interval(_ interval: Duration, of lease: Duration) -> Duration { min(interval, lease / 3) }

    /// Renews until the task is cancelled.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                var backoff = Backoff()
                await repeating(after: interval) {
                    if let error = await renew() {
                        // Redis may only have been busy for a moment; waiting a whole interval would cost the leases
                        // time.
                        return min(interval, backoff.next(after: error))
                    }
                    backoff.reset()
                    return interval
                }
            }
            // Concurrent with the renewals, not after them: a renewal that hangs is the very reason to fence.
            group.addTask { await fence() }
        }
    }

    /// Stops each job when its lease may have expired. A pause may miss the expiry of a job whose claim was answered
    /// late during it: so none is longer than the time by which that expiry is before the end of the lease.
    private func fence() async {
        await repeating {
            let now = ContinuousClock.now
            let fenced = running.fence(at: now)
            if fenced > 0 {
                statistics.add("fenced", fenced)
                logger.warning(
                    "leases could not be renewed in time; their jobs were stopped",
                    metadata: [LogKey.count: "\(fenced)"]
                )
            }
            let expiry = running.nextExpiry.map { now.duration(to: $0) } ?? interval
            return max(.milliseconds(1), min(expiry, interval / 2, lease - Self.validity(of: lease)))
        }
    }

    private var currentInfo: WorkerInfo {
        var info = info
        if let places, places.isShared { info.shards = places.shardCount }
        info.problem = places?.disk.reason().map { $0.truncated(to: WorkerInfo.maximumProblem) }
        return info
    }

    /// Renews the leases once. The first renewal registers the worker with the cluster.
    ///
    /// - Returns: the error if the renewal failed.
    @discardableResult
    func renew() async -> RedisError? {
        defer { pulse.beat() }
        let jobs = running.all
        let sent = ContinuousClock.now
        let info = currentInfo
        let isChanged = description.isChanged(jobs.count, info.problem, at: sent)
        do throws(RedisError) {
            let (lost, cancelled, quarantined, workers) = try await queue.renew(
                jobs.map { ($0.key.text, $0.attempt) },
                worker: worker,
                lease: lease,
                info: info.json,
                isChanged: isChanged,
                timeout: interval
            )
            if isChanged { description.written(jobs.count, info.problem, at: sent) }
            pace.observe(workers: workers)
            running.renewed(at: sent)
            let (lostIDs, cancelledIDs, quarantinedIDs) = (Set(lost), Set(cancelled), Set(quarantined))
            // All leases first, so that no job comes to its fence while others are stopped.
            for job in jobs where !lostIDs.contains(job.key.text) { job.prolong(to: sent + Self.validity(of: lease)) }
            for job in jobs {
                if lostIDs.contains(job.key.text) {
                    // A job that has just ended is no longer ours either: the renewal may overtake the reply to its
                    // settlement.
                    if running.contains(job), !job.isSettling { statistics.add("leases_lost", 1) }
                    job.stop(.leaseLost)
                }
                if cancelledIDs.contains(job.key.text) { job.stop(.batchCancelled) }
                if quarantinedIDs.contains(job.key.text) { job.stop(.quarantined) }
            }
            return nil
        } catch {
            running.renewalFailed()
            logger.warning("cannot renew leases; retrying", metadata: [LogKey.error: "\(error)"])
            return error
        }
    }
}
