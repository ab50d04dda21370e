import Synchronization

/// Jobs this worker has claimed and not settled, with each lease's expiry.
final class RunningJobs: Sendable {
    private struct State {
        var jobs: [String: ActiveJob] = [:]
        /// Number of jobs that are being settled.
        var settling = 0

        mutating func remove(_ job: ActiveJob?) {
            guard let job else { return }
            jobs[job.key.text] = nil
            if job.isSettling { settling -= 1 }
        }
    }

    private let state = Mutex(State())
    private let lastRenewal = Mutex<ContinuousClock.Instant?>(nil)
    /// Fired each time a job ends, and whenever the claim loop should look again for another reason.
    let changed = AsyncSignal()
    /// Called after that when a job ends: the place may be another shard's.
    private let didFree = Mutex<(@Sendable () -> Void)?>(nil)

    var count: Int { state.withLock { $0.jobs.count } }
    /// Jobs whose work is not done; the others are only being settled.
    var activeCount: Int { state.withLock { $0.jobs.count - $0.settling } }
    /// Whether one of the jobs is suspected of process deaths: no second suspect runs beside it.
    var hasSuspect: Bool { state.withLock { $0.jobs.values.contains { $0.isSuspect } } }
    var all: [ActiveJob] { state.withLock { Array($0.jobs.values) } }

    func contains(_ job: ActiveJob) -> Bool { state.withLock { $0.jobs[job.key.text] === job } }

    func insert(_ job: ActiveJob) {
        state.withLock { state in
            // The same id may have been claimed again after its lease was lost.
            state.remove(state.jobs[job.key.text])
            state.jobs[job.key.text] = job
        }
    }

    /// Marks the job as being settled: its work is done.
    func markSettling(_ job: ActiveJob) {
        state.withLock { state in
            if job.isSettling { return }
            job.markSettling()
            if state.jobs[job.key.text] === job { state.settling += 1 }
        }
        notify()
    }

    func remove(_ job: ActiveJob) {
        // A later attempt at the same job stays.
        state.withLock { if $0.jobs[job.key.text] === job { $0.remove(job) } }
        notify()
    }

    /// Sets a closure that is called whenever a place may be free.
    func onFree(_ body: @escaping @Sendable () -> Void) { didFree.withLock { $0 = body } }

    private func notify() {
        changed.signal()
        didFree.withLock { $0 }?()
    }

    /// Time at which the last renewal was sent; nil before the first one, and if the last one failed.
    var renewed: ContinuousClock.Instant? { lastRenewal.withLock { $0 } }

    /// Records that the last renewal failed.
    func renewalFailed() { lastRenewal.withLock { $0 = nil } }

    func renewed(at instant: ContinuousClock.Instant) { lastRenewal.withLock { $0 = instant } }

    /// Stops jobs whose lease may have expired.
    ///
    /// - Returns: the number of jobs that were stopped.
    func fence(at now: ContinuousClock.Instant) -> Int {
        let late = all.filter { $0.validUntil <= now && $0.reason == nil }
        for job in late { job.stop(.leaseLost) }
        return late.count
    }
}
