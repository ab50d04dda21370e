import Synchronization

/// What a worker has claimed and not ended: the one place that knows how long each may still go on.
final class RunningJobs: Sendable {
    /// Why a job is stopped before its end.
    enum StopReason: Sendable {
        /// The lease is another's, or may be: nothing may be written about the job any more.
        case leaseLost
        case batchCancelled
        /// The worker ends: the job goes back.
        case shutdown
    }

    /// One of them.
    final class Entry: Sendable {
        let job: ClaimedJob
        /// Fired when the job is to stop; `reason` says why.
        let stop = Trigger()
        private struct State {
            var validUntil: ContinuousClock.Instant
            var reason: StopReason?
            var isEnding = false
        }

        private let state: Mutex<State>

        init(_ job: ClaimedJob, validUntil: ContinuousClock.Instant) {
            self.job = job
            state = Mutex(State(validUntil: validUntil))
        }

        /// Whether Redis is being told of its end: a lease that is gone then was ended by that, or its verdict says more.
        var isEnding: Bool { state.withLock { $0.isEnding } }

        func willEnd() { state.withLock { $0.isEnding = true } }

        var reason: StopReason? { state.withLock { $0.reason } }
        var validUntil: ContinuousClock.Instant { state.withLock { $0.validUntil } }

        func prolong(to instant: ContinuousClock.Instant) {
            state.withLock { $0.validUntil = max($0.validUntil, instant) }
        }

        /// The first reason stays.
        func stop(_ reason: StopReason) {
            state.withLock { state in
                if state.reason == nil { state.reason = reason }
            }
            stop.fire()
        }
    }

    private let entries = Mutex<[String: Entry]>([:])
    private let lastRenewal = Mutex<ContinuousClock.Instant?>(nil)
    /// Fired each time one ends, and when something else says that it is worth looking again.
    let changed = Trigger()

    var count: Int { entries.withLock { $0.count } }
    var all: [Entry] { entries.withLock { Array($0.values) } }

    func contains(_ entry: Entry) -> Bool { entries.withLock { $0[entry.job.id] === entry } }

    func insert(_ entry: Entry) { entries.withLock { $0[entry.job.id] = entry } }

    func remove(_ entry: Entry) {
        // The same id may have been claimed again after its lease was lost: only this attempt goes.
        entries.withLock { if $0[entry.job.id] === entry { $0[entry.job.id] = nil } }
        changed.fire()
    }

    /// When the last renewal was sent; nil before the first, and where Redis has not answered it.
    var renewed: ContinuousClock.Instant? { lastRenewal.withLock { $0 } }

    /// The last try to renew failed.
    func notRenewed() { lastRenewal.withLock { $0 = nil } }

    func renewed(at instant: ContinuousClock.Instant) { lastRenewal.withLock { $0 = instant } }

    /// Stops what can no longer be sure of its lease.
    ///
    /// - Returns: how many.
    func fence(at now: ContinuousClock.Instant) -> Int {
        let late = all.filter { $0.validUntil <= now && $0.reason == nil }
        for entry in late { entry.stop(.leaseLost) }
        return late.count
    }
}
