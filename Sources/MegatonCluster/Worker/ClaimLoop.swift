internal import Logging
internal import MegatonRedis
import Synchronization

/// Fills the worker's free places with claimed jobs of one shard, sleeps while there are none, and drains at the end.
final class ClaimLoop: Sendable {
    private let queue: JobQueue
    private let wake: RedisClient
    let handler: JobHandler
    let running: RunningJobs
    private let concurrency: Int
    let places: WorkerPlaces
    private let pace: IdlePace
    /// The number of the shard in `places`.
    let member: Int
    let takesOnlySuspects: Bool
    private let isolated: SuspectIsolation?
    private let lease: Duration
    private let drainTimeout: Duration
    let logger: Logger
    let throttle: Mutex<ClaimThrottle>
    let piggyback = Mutex(PiggybackState())
    /// Fired when a claim of `piggyback` has brought jobs.
    let arrived = AsyncSignal()
    /// Fired when the worker is idle, so that `listen()` waits for a wake token.
    private let listening = AsyncSignal()
    /// Time since which the worker waits for a token; nil if it does not.
    private let listeningSince = Mutex<ContinuousClock.Instant?>(nil)
    /// Whether a wake token has arrived since the last claim.
    private let hasWakeToken = Atomic(false)
    /// Whether `listen()` waits for a token, or is about to.
    private let isListening = Atomic(false)

    /// Longest sleep of an idle worker of a small fleet with one shard. It then looks for jobs by itself, so that a
    /// lost token costs no more.
    private static let idleInterval: Duration = .seconds(2)
    /// Longest time for which one command waits for a token: Redis gives one to a connection that has ended unnoticed.
    private static let longestWait: Duration = .seconds(20)
    /// Time in which the reply to a command that waits for a token must arrive after its end.
    private static let replyTime: Duration = .seconds(2)

    /// - Parameters:
    ///   - wake: a connection that nothing else uses.
    ///   - isolated: the process that runs suspects; nil runs them among the other jobs, one at a time.
    ///   - places: the places that the loop shares with those of other shards; nil if there are none.
    ///   - pace: decides how often an idle worker looks for jobs.
    init(
        _ configuration: Worker.Configuration,
        queue: JobQueue,
        wake: RedisClient,
        handler: JobHandler,
        running: RunningJobs,
        isolated: SuspectIsolation? = nil,
        places: WorkerPlaces? = nil,
        pace: IdlePace = IdlePace(),
        logger: Logger
    ) {
        self.queue = queue
        self.wake = wake
        self.handler = handler
        self.running = running
        let places = places ?? Self.places(configuration)
        // Without an answer, none are known of.
        let member = places.add(running) { (try? await queue.waitingJobs(beside: $0)) ?? .none }
        (self.places, self.member, concurrency) = (places, member, places.count)
        self.pace = pace
        throttle = Mutex(ClaimThrottle(concurrency: places.count))
        takesOnlySuspects = configuration.takesOnlySuspects
        self.isolated = isolated
        lease = configuration.lease
        drainTimeout = configuration.drainTimeout
        self.logger = logger
    }

    /// The places of a worker with this configuration.
    static func places(_ configuration: Worker.Configuration) -> WorkerPlaces {
        // A suspect holds its place until Redis has answered: if the next job kills the process, no other source may
        // seem to be the cause.
        WorkerPlaces(
            count: configuration.takesOnlySuspects ? 1 : configuration.concurrency,
            waitsForSettlements: configuration.takesOnlySuspects
        )
    }

    /// Claims and runs jobs until the signal, then lets running jobs finish.
    func run(until signal: ShutdownSignal) async {
        await withTaskGroup(of: Void.self) { watch in
            watch.addTask {
                // The claim loop may be asleep. It needs no wake tokens after this.
                await signal.wait(for: .drain)
                self.piggyback.withLock { $0.isOpen = false }
                self.wake.close()
                self.running.changed.signal()
            }
            watch.addTask { await self.listen() }
            watch.addTask { await self.endLongSleeps() }
            await withDiscardingTaskGroup { jobs in
                jobs.addTask { await self.runPiggybackJobs() }
                openPiggyback()
                var failures = Backoff()
                var (isFailing, needsToken) = (false, false)
                await repeating {
                    if signal.level > .none { return nil }
                    needsToken = takePiggybackNews() ?? needsToken
                    if needsToken && free > 0 {
                        needsToken = false
                        // It waits for a token now, not for a place: its turn is another shard's.
                        places.leave(member)
                        await idle(signal, needsToken: true)
                        return .zero
                    }
                    do {
                        if isFailing && places.isShared { try await waitForAnswer() }
                        isFailing = false
                        let wasNotified = await pause()
                        if signal.level > .none { return nil }
                        let claim = try await claimFree(wasNotified)
                        if let claim {
                            failures.reset()
                            needsToken = note(claim, wasNotified: wasNotified)
                            piggyback.withLock { $0.needsToken = needsToken }
                            places.end(for: member)
                            end(.loop)
                        } else {
                            // The jobs that were left to others may have no token any more. The claim that is under way
                            // with a settlement finds them otherwise.
                            let isUnderway = piggyback.withLock { $0.underway } != nil
                            let hasLeftJobs = isUnderway ? false : throttle.withLock { $0.forgetLeftJobs() }
                            try await passTokenOn(wasNotified || hasLeftJobs)
                        }
                        let claimed = claim?.jobs ?? []
                        for job in claimed { jobs.addTask { await self.handler.handle(job) } }
                        if claim != nil && claimed.isEmpty && free > 0 {
                            if takesOnlySuspects { return nil }
                            // Jobs that were left to other workers are asked for again soon.
                            if !throttle.withLock({ $0.hasLeftJobs }) && !needsToken { await idle(signal) }
                        } else if claimed.isEmpty {
                            await idle(signal)
                        }
                        return .zero
                    } catch  where signal.level > .none || Task.isCancelled {
                        return nil
                    } catch {
                        logger.warning("cannot claim jobs; retrying", metadata: [LogKey.error: "\(error)"])
                        // A process for suspects must end: the worker starts another one for those of other shards.
                        if takesOnlySuspects && places.isShared { return nil }
                        isFailing = true
                        // Its turn must not keep the places from the other shards.
                        if places.isShared { places.leave(member) }
                        return failures.next(after: error)
                    }
                }
                await closePiggyback()
                places.leave(member)
                await drain(signal)
                endPiggyback()
            }
            watch.cancelAll()
        }
    }

    /// Waits for an answer of a shard whose last claim failed: a claim would occupy places that the other shards can
    /// use.
    private func waitForAnswer() async throws(RedisError) {
        try await queue.redis.send(["EXISTS", .string(queue.keys.control)])
    }

    /// Places for which jobs may be claimed; none while a claim is under way with a settlement.
    var free: Int { piggyback.withLock({ $0.underway }) == .settlement ? 0 : places.free(for: member) }

    /// - Returns: whether a wake token has arrived.
    private func pause() async -> Bool {
        var wasNotified = false
        while free > 0, !Task.isCancelled {
            wasNotified = hasWakeToken.exchange(false, ordering: .acquiringAndReleasing) || wasNotified
            let now = ContinuousClock.now
            let activeCount = places.activeCount
            let due = throttle.withLock { $0.next(activeCount: activeCount, wasNotified: wasNotified) }
            guard let next = due, next > now else { return wasNotified }
            // In steps, as jobs whose results are cached end sooner. Cancelled: the loop's condition ends it.
            try? await Task.sleep(until: min(next, now + ClaimThrottle.step), clock: .continuous)
        }
        return wasNotified
    }

    /// Passes on a wake token for which there is no place any more: this worker has claimed for it in between, and the
    /// other workers may sleep.
    private func passTokenOn(_ wasNotified: Bool) async throws(RedisError) {
        let isNotified = hasWakeToken.exchange(false, ordering: .acquiringAndReleasing)
        if wasNotified || isNotified { try await queue.passTokenOn() }
    }

    /// Claims jobs for the free places.
    ///
    /// - Returns: nil if no place is free, or another shard is first. Otherwise the caller ends the claim, after it has
    ///   noted its jobs.
    private func claimFree(_ wasNotified: Bool) async throws(RedisError) -> JobQueue.Claim? {
        guard begin(.loop) else { return nil }
        let free = places.reserve(for: member)
        guard free > 0 else {
            end(.loop)
            return nil
        }
        do throws(RedisError) {
            return try await queue.claim(request(free, at: .now))
        } catch {
            places.end(for: member)
            end(.loop)
            throw error
        }
    }

    /// A claim for the places that were reserved.
    func request(_ free: Int, at now: ContinuousClock.Instant) -> JobQueue.ClaimRequest {
        JobQueue.ClaimRequest(
            limit: free,
            running: running.unsettledCount,
            places: concurrency,
            ignoresShare: throttle.withLock { $0.ignoresShare(at: now) },
            suspects: suspectHandling,
            worker: handler.worker,
            lease: lease,
            sent: now,
            validUntil: now + LeaseHeartbeat.validity(of: lease)
        )
    }

    /// Notes the jobs of a claim, before its places are given back.
    ///
    /// - Returns: whether to wait for a token before the next claim.
    func note(_ claim: JobQueue.Claim, wasNotified: Bool) -> Bool {
        let prefersTokens = throttle.withLock { throttle in
            throttle.claimed(claim.jobs.count, left: claim.left, wasNotified: wasNotified, at: claim.sent)
            return throttle.prefersTokens
        }
        if claim.wantsIsolation { isolated?.requestProcess() }
        for job in claim.jobs { running.insert(job) }
        // In a large fleet only: in a small one, the look of another worker would come late if a token is lost.
        return claim.isQueueEmpty || claim.isAnnounced && pace.isLargeFleet && prefersTokens
    }

    /// - Returns: whether to wait for a token, if a claim with a settlement has decided that since.
    private func takePiggybackNews() -> Bool? {
        piggyback.withLock { state in
            defer { state.isNews = false }
            return state.isNews ? state.needsToken : nil
        }
    }

    private var suspectHandling: JobQueue.SuspectHandling {
        if takesOnlySuspects { return .only }
        let handling = isolated?.handling ?? .one
        return handling == .one && places.hasSuspect ? .none : handling
    }

    /// Sleeps until there may be a job to claim: a wake token has arrived, or a job of this worker has ended, which
    /// increases the worker's share of the ready jobs.
    ///
    /// - Parameter needsToken: whether a token announces each job that is ready by now. The ends of this worker's jobs
    ///   then do not wake it while it waits for a token: in a large fleet with short jobs, most claims would be in
    ///   vain.
    private func idle(_ signal: ShutdownSignal, needsToken: Bool = false) async {
        let waitsForToken = piggyback.withLock { $0.underway } == nil && places.hasPlace(member)
        if waitsForToken {
            listeningSince.withLock { $0 = .now }
            isListening.store(true, ordering: .releasing)
            listening.signal()
        }
        // A token may have arrived before this call began, and after the claim.
        while !(waitsForToken && needsToken && hasWakeToken.load(ordering: .acquiring)) {
            await running.changed.wait()
            let goesOn = waitsForToken && needsToken && isListening.load(ordering: .acquiring)
            if !goesOn || signal.level > .none || Task.isCancelled { break }
        }
        listeningSince.withLock { $0 = nil }
    }

    /// Ends sleeps that began in a larger fleet, and are longer than those of the present one. The command that waits
    /// for a token goes on: it cannot be shortened without the risk of losing one.
    private func endLongSleeps() async {
        await repeating {
            if let since = listeningSince.withLock({ $0 }) {
                let slept = since.duration(to: .now) - Self.replyTime
                if pace.isOver(Self.idleInterval, after: slept) { look() }
            }
            return pace.checkInterval(Self.idleInterval)
        }
    }

    /// Looks for jobs, also while the worker waits for a token.
    func look() {
        isListening.store(false, ordering: .releasing)
        running.changed.signal()
    }

    /// Pops a wake token whenever the worker is idle, on its own connection, so that the end of a job can wake the
    /// worker meanwhile.
    private func listen() async {
        var failures = Backoff()
        await listening.serve {
            if try await waitForToken() {
                // A job has been claimed since the worker was idle. The token belongs to a worker with a free place. If
                // the place is gone when the claim begins, `passTokenOn` passes the token on.
                if free <= 0 {
                    try await queue.passTokenOn()
                } else {
                    hasWakeToken.store(true, ordering: .releasing)
                }
            }
            failures.reset()
        } pauseAfter: { error in
            // The claim that follows meets the same failure and logs it.
            isListening.store(false, ordering: .releasing)
            return failures.next(after: error)
        } done: {
            look()
        }
    }

    /// Waits until there is a wake token, or until the idle interval is over.
    ///
    /// - Returns: whether a token was popped.
    private func waitForToken() async throws(RedisError) -> Bool {
        let interval = pace.interval(Self.idleInterval)
        let parts = Int((interval / Self.longestWait).rounded(.up))
        let wait = interval / parts
        for _ in 0..<parts where !Task.isCancelled {
            let token = try await wake.send(
                ["BLPOP", .string(queue.keys.wake), .string("\(Double(wait.wholeMilliseconds) / 1000)")],
                timeout: wait + Self.replyTime
            )
            if token.array != nil { return true }
            if free <= 0 { return false }
        }
        return false
    }

    /// Lets running jobs finish, of packs only the sources that have begun. Those that do not finish in time, or by the
    /// second signal, are stopped and released.
    private func drain(_ signal: ShutdownSignal) async {
        running.beginDraining()
        do {
            // The worker may have received a token for which it claims nothing any more, or may yet receive one.
            try await queue.passTokenOn(closing: true)
        } catch {
            logger.debug(
                "no other worker could be woken; the others look for jobs by themselves",
                metadata: [LogKey.error: "\(error)"]
            )
        }
        if running.count > 0 {
            logger.info(
                "draining: running jobs finish, no others are claimed",
                metadata: [LogKey.count: "\(running.count)"]
            )
        }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await signal.wait(for: .abort) }
            // Cancelled if another task of the group ends first.
            group.addTask { try? await Task.sleep(for: self.drainTimeout) }
            group.addTask {
                while self.running.count > 0 && !Task.isCancelled { await self.running.changed.wait() }
            }
            await group.next()
            group.cancelAll()
        }
        for job in running.all { job.stop(.shutdown) }
    }
}
