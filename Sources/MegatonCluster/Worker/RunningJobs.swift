import Synchronization

/// What a worker has claimed and not ended: the one place that knows how long each may still go on.
final class RunningJobs: Sendable {
    /// Why a job is stopped before its end.
    enum StopReason: Sendable {
        /// The lease is another's, or may be: nothing may be written about the job any more.
        case leaseLost
        case batchCancelled
        /// Three processes have died of its source meanwhile.
        case quarantined
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

        fileprivate func willEnd() { state.withLock { $0.isEnding = true } }

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

    private struct State {
        var entries: [String: Entry] = [:]
        /// How many of them are ending.
        var ending = 0

        mutating func remove(_ entry: Entry?) {
            guard let entry else { return }
            entries[entry.job.key.text] = nil
            if entry.isEnding { ending -= 1 }
        }
    }

    private let state = Mutex(State())
    private let lastRenewal = Mutex<ContinuousClock.Instant?>(nil)
    /// Fired each time one ends, and when something else says that it is worth looking again.
    let changed = Trigger()

    var count: Int { state.withLock { $0.entries.count } }
    /// Those that are still being done: of the others Redis is only to be told the end.
    var inHand: Int { state.withLock { $0.entries.count - $0.ending } }
    /// Whether one of them is suspected of process deaths: no second one runs beside it.
    var hasSuspect: Bool { state.withLock { $0.entries.values.contains { $0.job.isSuspect } } }
    var all: [Entry] { state.withLock { Array($0.entries.values) } }

    func contains(_ entry: Entry) -> Bool { state.withLock { $0.entries[entry.job.key.text] === entry } }

    func insert(_ entry: Entry) {
        state.withLock { state in
            // The same id may have been claimed again after its lease was lost.
            state.remove(state.entries[entry.job.key.text])
            state.entries[entry.job.key.text] = entry
        }
    }

    /// The job's work is done.
    func willEnd(_ entry: Entry) {
        state.withLock { state in
            if entry.isEnding { return }
            entry.willEnd()
            if state.entries[entry.job.key.text] === entry { state.ending += 1 }
        }
        changed.fire()
    }

    func remove(_ entry: Entry) {
        // Only this attempt goes.
        state.withLock { if $0.entries[entry.job.key.text] === entry { $0.remove(entry) } }
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
