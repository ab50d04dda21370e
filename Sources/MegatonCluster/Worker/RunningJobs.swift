import Synchronization

/// Jobs this worker has claimed and not settled, with each lease's expiry.
final class RunningJobs: Sendable {
    /// Why a job is stopped before its end.
    enum StopReason: Sendable {
        /// Another worker has the lease, or may have it: nothing may be written about the job any more.
        case leaseLost
        case batchCancelled
        /// Three processes have died of its source meanwhile.
        case quarantined
        /// The worker shuts down: the job is released.
        case shutdown
    }

    /// A claimed job and its state.
    final class Entry: Sendable {
        let job: ClaimedJob
        /// Fired when the job must stop; `reason` has the reason.
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

        /// Whether the job is being settled. If its lease is gone then, the settlement has ended it, or the verdict
        /// explains it.
        var isEnding: Bool { state.withLock { $0.isEnding } }

        fileprivate func willEnd() { state.withLock { $0.isEnding = true } }

        var reason: StopReason? { state.withLock { $0.reason } }
        var validUntil: ContinuousClock.Instant { state.withLock { $0.validUntil } }

        func prolong(to instant: ContinuousClock.Instant) {
            state.withLock { $0.validUntil = max($0.validUntil, instant) }
        }

        /// Stops the job. The first reason stays.
        func stop(_ reason: StopReason) {
            state.withLock { state in
                if state.reason == nil { state.reason = reason }
            }
            stop.fire()
        }
    }

    private struct State {
        var entries: [String: Entry] = [:]
        /// Number of entries that are being settled.
        var ending = 0

        mutating func remove(_ entry: Entry?) {
            guard let entry else { return }
            entries[entry.job.key.text] = nil
            if entry.isEnding { ending -= 1 }
        }
    }

    private let state = Mutex(State())
    private let lastRenewal = Mutex<ContinuousClock.Instant?>(nil)
    /// Fired each time a job ends, and whenever the claim loop should look again for another reason.
    let changed = Trigger()

    var count: Int { state.withLock { $0.entries.count } }
    /// Jobs whose work is not done; the others are only being settled.
    var inHand: Int { state.withLock { $0.entries.count - $0.ending } }
    /// Whether one of the jobs is suspected of process deaths: no second suspect runs beside it.
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

    /// Marks the job as being settled: its work is done.
    func willEnd(_ entry: Entry) {
        state.withLock { state in
            if entry.isEnding { return }
            entry.willEnd()
            if state.entries[entry.job.key.text] === entry { state.ending += 1 }
        }
        changed.fire()
    }

    func remove(_ entry: Entry) {
        // A later attempt at the same job stays.
        state.withLock { if $0.entries[entry.job.key.text] === entry { $0.remove(entry) } }
        changed.fire()
    }

    /// Time at which the last renewal was sent; nil before the first one, and if the last one failed.
    var renewed: ContinuousClock.Instant? { lastRenewal.withLock { $0 } }

    /// Records that the last renewal failed.
    func notRenewed() { lastRenewal.withLock { $0 = nil } }

    func renewed(at instant: ContinuousClock.Instant) { lastRenewal.withLock { $0 = instant } }

    /// Stops jobs whose lease may have expired.
    ///
    /// - Returns: the number of jobs that were stopped.
    func fence(at now: ContinuousClock.Instant) -> Int {
        let late = all.filter { $0.validUntil <= now && $0.reason == nil }
        for entry in late { entry.stop(.leaseLost) }
        return late.count
    }
}
