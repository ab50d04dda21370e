internal import Logging
internal import MegatonRedis
import Synchronization

extension ClaimLoop: PiggybackClaiming {
    func beginClaim() -> JobQueue.ClaimRequest? {
        // Several shards take turns by the order in which they ask for places, and a process for suspects ends after
        // each of its jobs.
        if takesOnlySuspects || places.isShared { return nil }
        let (now, activeCount) = (ContinuousClock.now, places.activeCount)
        let due = throttle.withLock { $0.next(activeCount: activeCount, wasNotified: false) } ?? now
        guard due <= now, begin(.settlement) else { return nil }
        let free = places.reserve(for: member)
        if free > 0 { return request(free, at: now) }
        end(.settlement)
        // It may have looked meanwhile, and found this claim under way.
        look()
        return nil
    }

    /// Notes that a claim begins, unless one is under way, which has all free places.
    func begin(_ origin: PiggybackState.Origin) -> Bool {
        piggyback.withLock { state in
            guard state.underway == nil, origin == .loop || state.isOpen && !state.needsToken else { return false }
            state.underway = origin
            return true
        }
    }

    func end(_ origin: PiggybackState.Origin) {
        piggyback.withLock { if $0.underway == origin { $0.underway = nil } }
    }

    func endClaim(_ result: Result<JobQueue.Claim, RedisError>) {
        switch result {
        case .success(let claim):
            let needsToken = note(claim, wasNotified: false)
            piggyback.withLock { state in
                state.jobs += claim.jobs
                (state.needsToken, state.isNews) = (needsToken, true)
            }
        case .failure(let error):
            // The loop claims for the same places next: it meets the same failure, and repeats.
            logger.debug("no jobs were claimed with a settlement", metadata: [LogKey.error: "\(error)"])
        }
        places.end(for: member)
        let isOpen = piggyback.withLock { state in
            state.underway = nil
            return state.isOpen
        }
        arrived.signal()
        // Also if the loop waits for a token: it has free places, and jobs may be left that no other worker takes.
        if free > 0 || !isOpen { look() }
    }

    /// Runs the jobs that these claims bring, until there will be no more.
    func runPiggybackJobs() async {
        await withDiscardingTaskGroup { group in
            while true {
                let (jobs, isOver) = piggyback.withLock { state in
                    defer { state.jobs = [] }
                    return (state.jobs, state.isOver)
                }
                for job in jobs { group.addTask { await self.handler.handle(job) } }
                if jobs.isEmpty {
                    // Only a test cancels it: a wait would return at once.
                    if isOver || Task.isCancelled { return }
                    await arrived.wait()
                }
            }
        }
    }

    func openPiggyback() {
        piggyback.withLock { $0.isOpen = true }
        handler.completions.use(self)
    }

    /// Lets no further claim begin, and waits for the end of one that is under way: Redis answers it, or it fails,
    /// within the time limit of a command.
    func closePiggyback() async {
        piggyback.withLock { $0.isOpen = false }
        handler.completions.use(nil)
        while piggyback.withLock({ $0.underway }) != nil && !Task.isCancelled { await running.changed.wait() }
    }

    /// Lets `runPiggybackJobs` end with its last job.
    func endPiggyback() {
        piggyback.withLock { $0.isOver = true }
        arrived.signal()
    }
}
