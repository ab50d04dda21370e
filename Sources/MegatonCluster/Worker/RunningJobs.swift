import Synchronization

/// Jobs this worker has claimed and not settled, with each lease's expiry.
final class RunningJobs: Sendable {
    private struct State {
        var jobs: [String: ActiveJob] = [:]
        /// Number of jobs that are being settled.
        var settling = 0
        /// Number of jobs that have left their places to others and are not being settled.
        var placeless = 0
        /// Free places that packs use for their sources.
        var lent = 0
        /// Whether the worker finishes only what it has begun.
        var isDraining = false
        /// The usual time of a fetch; nil before the first one.
        var usualFetch: Duration?

        var active: Int { jobs.count - settling - placeless }
        var used: Int { active + lent }

        mutating func remove(_ job: ActiveJob?) {
            guard let job else { return }
            jobs[job.key.text] = nil
            if job.isSettling {
                settling -= 1
            } else if job.hasLeftPlace {
                placeless -= 1
            }
        }
    }

    private let state = Mutex(State())
    private let lastRenewal = Mutex<ContinuousClock.Instant?>(nil)
    /// Fired each time a job ends, and whenever the claim loop should look again for another reason; a loop that waits
    /// for a token does not look then (`ClaimLoop.look`).
    let changed = AsyncSignal()
    /// Nil without a claim loop.
    private let siblings = Mutex<Siblings?>(nil)

    /// Calls to the other shards of a worker, which share its places.
    struct Siblings: Sendable {
        /// Called after `changed` when a job ends: the place may be another shard's.
        let didFree: @Sendable () -> Void
        /// Lends a place; nil if there is only one shard.
        let lend: @Sendable () -> Bool?
        /// Jobs of all shards that occupy a place.
        let activeCount: @Sendable () -> Int
        /// Whether the end of a job in Redis may free a place: other shards count it, or a place is free only then.
        let countsSettlements: @Sendable () -> Bool
        /// Asks the shards that wait for a place for their ready jobs, beside one of this priority.
        let waitingJobs: @Sendable (Job.Priority) async -> JobQueue.WaitingJobs
    }

    var count: Int { state.withLock { $0.jobs.count } }
    /// Jobs that occupy a place. The others are only being settled, or have left it as their fetches take long.
    var activeCount: Int { state.withLock { $0.active } }
    /// Jobs that have left their places and are not being settled.
    var placelessCount: Int { state.withLock { $0.placeless } }
    /// Jobs whose work is not done, with a place or without.
    var unsettledCount: Int { state.withLock { $0.active + $0.placeless } }
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

    /// Whether a pack begins with no further source: the worker drains, and releases the rest.
    var isDraining: Bool { state.withLock { $0.isDraining } }

    func beginDraining() { state.withLock { $0.isDraining = true } }

    /// Lends a free place to a pack for one more of its sources; a job that is claimed meanwhile starts nevertheless.
    func lend(of places: Int) -> Bool {
        if let isLent = siblings.withLock({ $0 })?.lend() { return isLent }
        return state.withLock { state in
            guard state.used < places else { return false }
            state.lent += 1
            return true
        }
    }

    /// Places in use, also by further sources of packs.
    var usedCount: Int { state.withLock { $0.used } }

    /// Lends a place that is known to be free.
    func lend() { state.withLock { $0.lent += 1 } }

    /// Jobs of the worker, in all of its shards, that occupy a place.
    var activeCountOfWorker: Int { siblings.withLock { $0 }?.activeCount() ?? activeCount }

    /// The jobs of other shards that wait for a place of the worker, beside one of this priority.
    func othersWaiting(beside priority: Job.Priority) async -> JobQueue.WaitingJobs {
        await siblings.withLock({ $0 })?.waitingJobs(priority) ?? .none
    }

    /// Takes a place back.
    func takeBack() { state.withLock { $0.lent -= 1 } }

    /// Marks the job as being settled: its work is done.
    ///
    /// - Parameter notifies: false if the caller calls ``placeFreed()`` soon, once the settlement has claimed a job for
    ///   the place or has not.
    func markSettling(_ job: ActiveJob, notifies: Bool = true) {
        state.withLock { state in
            if job.isSettling { return }
            job.markSettling()
            guard state.jobs[job.key.text] === job else { return }
            state.settling += 1
            if job.hasLeftPlace { state.placeless -= 1 }
        }
        if notifies { notify() }
    }

    /// The usual time of a request to an origin: about the median, which a few slow hosts leave as it is. Nil before
    /// the first one.
    var usualFetch: Duration? { state.withLock { $0.usualFetch } }

    /// Notes the time of the last request of a job that is done: the median moves a little towards it.
    func noteFetch(_ time: Duration) {
        state.withLock { state in
            let usual = state.usualFetch ?? time
            state.usualFetch = max(time > usual ? usual * Self.step : usual / Self.step, Self.shortestFetch)
        }
    }

    /// Factor by which the usual time of a fetch changes: from 10 s to 0.25 s with 76 fetches.
    private static let step = 1.05

    /// The least that the usual time of a fetch is taken to be, so that it grows in little time.
    private static let shortestFetch: Duration = .milliseconds(10)

    /// The hosts of which fetches have lasted since a time.
    func hosts(ofFetchesSince time: ContinuousClock.Instant) -> Set<String> {
        state.withLock { state in
            Set(state.jobs.values.lazy.compactMap(\.fetch).filter { $0.start <= time }.compactMap(\.host))
        }
    }

    /// Lets jobs leave their places whose fetches take long: they need none any more, as rendering has limits of its
    /// own. Those that began first leave before others. A suspect keeps its place, as no other job may seem to be the
    /// cause of a death.
    ///
    /// - Parameter isLong: whether a fetch that began then, from this host, takes long.
    /// - Returns: the number of jobs, at most `limit`.
    func leavePlaces(atMost limit: Int, _ isLong: (ContinuousClock.Instant, String?) -> Bool) -> Int {
        state.withLock { state in
            var leaving: [(job: ActiveJob, start: ContinuousClock.Instant)] = []
            for job in state.jobs.values {
                guard !job.isSettling, !job.hasLeftPlace, !job.isSuspect, let fetch = job.fetch,
                    isLong(fetch.start, fetch.host)
                else { continue }
                leaving.append((job, fetch.start))
            }
            if leaving.count > limit { leaving.sort { $0.start < $1.start } }
            for (job, _) in leaving.prefix(limit) { job.leavePlace() }
            let count = min(leaving.count, limit)
            state.placeless += count
            return count
        }
    }

    /// Notifies the claim loop of a place that became free without a notice.
    func placeFreed() { notify() }

    func remove(_ job: ActiveJob) {
        let countsSettlements = siblings.withLock { $0 }?.countsSettlements() ?? true
        let isNews = state.withLock { state in
            // The place of a job that was being settled has been free since, but a suspect keeps others from running.
            let isNews =
                !job.isSettling || job.isSuspect || state.isDraining || state.settling >= Self.manySettling
            // A later attempt at the same job stays.
            if state.jobs[job.key.text] === job { state.remove(job) }
            return isNews
        }
        if isNews || countsSettlements { notify() }
    }

    /// Number of jobs that are being settled from which on they may keep the worker from claiming others
    /// (`WorkerPlaces`).
    private static let manySettling = JobQueue.maximumBatchSize / 2

    /// Sets the calls to the other shards of the worker.
    func join(_ calls: Siblings) { siblings.withLock { $0 = calls } }

    private func notify() {
        changed.signal()
        siblings.withLock { $0 }?.didFree()
    }

    /// Time at which the last renewal was sent; nil before the first one, and if the last one failed.
    var renewed: ContinuousClock.Instant? { lastRenewal.withLock { $0 } }

    /// Records that the last renewal failed.
    func renewalFailed() { lastRenewal.withLock { $0 = nil } }

    func renewed(at instant: ContinuousClock.Instant) { lastRenewal.withLock { $0 = instant } }

    /// When the first of the leases may expire; nil without jobs.
    var nextExpiry: ContinuousClock.Instant? { all.lazy.filter { $0.reason == nil }.map(\.validUntil).min() }

    /// Stops jobs whose lease may have expired.
    ///
    /// - Returns: the number of jobs that were stopped.
    func fence(at now: ContinuousClock.Instant) -> Int {
        let late = all.filter { $0.validUntil <= now && $0.reason == nil }
        for job in late { job.stop(.leaseLost) }
        return late.count
    }
}
