internal import Foundation
internal import Logging
internal import MegatonPipeline
internal import MegatonRedis

/// Renews the leases of all that runs, in one script, and stops what is lost.
///
/// It has a connection and an event loop of its own, so that nothing else the worker does can delay it. A job whose
/// lease cannot be renewed in time is stopped before it can be another's: the time is counted from before the last
/// renewal that succeeded was sent, by our own clock, which cannot step.
struct LeaseKeeper: Sendable {
    let queue: JobQueue
    let worker: String
    let info: WorkerInfo
    let running: RunningJobs
    let lease: Duration
    let interval: Duration
    let statistics: StatisticsRecorder
    let logger: Logger

    /// What a job may go on for after its claim or renewal was sent: two seconds less than the lease, or less where
    /// the lease is short.
    static func validity(of lease: Duration) -> Duration { max(lease - .seconds(2), lease / 2) }

    /// The interval of a configuration, but no more than a third of the lease: one renewal may fail, and the next still comes
    /// before jobs are stopped.
    static func interval(_ interval: Duration, of lease: Duration) -> Duration { min(interval, lease / 3) }

    /// Renews until the task is cancelled.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                var backoff = Backoff()
                var pause = interval
                while !Task.isCancelled {
                    try? await Task.sleep(for: pause)  // Cancelled: the loop's condition ends it.
                    if Task.isCancelled { return }
                    if let error = await renew() {
                        // A Redis that was busy for a moment, say: waiting for the next turn would cost the leases time.
                        pause = min(interval, backoff.next(after: error))
                    } else {
                        backoff.reset()
                        pause = interval
                    }
                }
            }
            // Beside it, not after it: a renewal that hangs is the very reason to fence.
            group.addTask { await fence() }
        }
    }

    private func fence() async {
        while !Task.isCancelled {
            let fenced = running.fence(at: .now)
            if fenced > 0 {
                statistics.add("fenced", fenced)
                logger.warning("leases could not be renewed in time", metadata: [LogKey.count: "\(fenced)"])
            }
            try? await Task.sleep(for: min(.seconds(1), interval / 2))  // Cancelled: the loop's condition ends it.
        }
    }

    /// One renewal; the first is how the cluster learns of the worker.
    ///
    /// - Returns: why it failed, where it did.
    @discardableResult
    func renew() async -> RedisError? {
        let entries = running.all
        let sent = ContinuousClock.now
        do throws(RedisError) {
            let (lost, cancelled, quarantined) = try await queue.renew(
                entries.map { ($0.job.key.text, $0.job.attempt) },
                worker: worker,
                lease: lease,
                info: info.json,
                timeout: interval
            )
            running.renewed(at: sent)
            let (lostIDs, cancelledIDs, quarantinedIDs) = (Set(lost), Set(cancelled), Set(quarantined))
            for entry in entries {
                if lostIDs.contains(entry.job.key.text) {
                    // One that has just ended is no longer ours either: the renewal may overtake the answer to its end.
                    if running.contains(entry), !entry.isEnding { statistics.add("leases_lost", 1) }
                    entry.stop(.leaseLost)
                } else {
                    entry.prolong(to: sent + Self.validity(of: lease))
                    if cancelledIDs.contains(entry.job.key.text) { entry.stop(.batchCancelled) }
                    if quarantinedIDs.contains(entry.job.key.text) { entry.stop(.quarantined) }
                }
            }
            return nil
        } catch {
            running.notRenewed()
            logger.warning("leases were not renewed", metadata: [LogKey.error: "\(error)"])
            return error
        }
    }
}
