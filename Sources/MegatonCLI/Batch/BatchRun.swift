import Foundation
import Logging
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import NIOPosix
import Synchronization

/// Submits one batch and follows it to its end: reading, pushing and collecting at the same time.
final class BatchRun: Sendable {
    /// How it ended.
    struct Result: Sendable {
        let summary: RunSummary
        let errors: String
        let skipped: Int
        let excluded: Int
        /// Jobs of a retried ledger that were left out.
        let unrepeated: RetryLedger.LeftOut
        let wasInterrupted: Bool
        /// Whether it was `--timeout` that interrupted it.
        let ranOutOfTime: Bool
    }

    /// `--timeout` is up, and the batch goes on without anybody who waits for it.
    private struct StoppedWaiting: Error {}

    private let options: BatchOptions
    private let batch: String
    private let selection: InputSelection
    private let maker: JobMaker
    /// Whether workers write to our standard error too.
    private let showsLogs: Bool
    private let queue: JobQueue
    private let monitor: BatchMonitor
    private let waiting: RedisClient
    private let ledger: Ledger?
    private let shutdown: ShutdownSignal
    /// The end of `--timeout`; nil if there is none.
    private let deadline: ContinuousClock.Instant?
    /// Whether what is left after `--timeout` is cancelled; else it goes on.
    private let cancelsAtTimeout: Bool
    private let progress = Mutex(Progress())
    /// Fired when the batch has begun, or will not.
    private let changed = Trigger()

    private struct Progress {
        /// Something was pushed, perhaps in vain.
        var wasTried = false
        /// Redis has the batch, and has it as ours.
        var hasBegun = false
        var submitted = 0
        var ended = 0
        var isComplete = false
        /// Nothing more is pushed.
        var isStopped = false
        var ranOutOfTime = false
        var skipped = 0
        var excluded = 0
        var unrepeated = RetryLedger.LeftOut()
    }

    /// Jobs that are submitted and have not ended: what is read ahead of the workers.
    private static let outstandingLimit = 20_000
    private static let readAtOnce = 500
    /// Outcomes that are worth a look of their own. Fewer are let gather while more than that are awaited: a look for each
    /// would cost as much as the rest of the queue.
    private static let many = 100
    private static let gathering: Duration = .milliseconds(50)
    /// How long the rest of an interrupted batch may take to end.
    private static let cancelPatience: Duration = .seconds(10)
    /// How long the last look at the counters is tried.
    private static let finalPatience: Duration = .seconds(60)

    init(
        _ options: BatchOptions,
        batch: String,
        selection: InputSelection,
        maker: JobMaker,
        showsLogs: Bool = false,
        control: RedisConfiguration,
        keys: QueueKeys,
        ledger: Ledger?,
        shutdown: ShutdownSignal,
        deadline: ContinuousClock.Instant?,
        cancelsAtTimeout: Bool = true
    ) {
        self.options = options
        self.deadline = deadline
        self.cancelsAtTimeout = cancelsAtTimeout
        self.batch = batch
        self.selection = selection
        self.maker = maker
        self.showsLogs = showsLogs
        self.ledger = ledger
        self.shutdown = shutdown
        let logger = LogOptions.logger("megaton.submit", level: .error)
        let group = MultiThreadedEventLoopGroup.singleton
        queue = JobQueue(RedisClient(control, role: "submit", group: group, logger: logger), keys: keys)
        waiting = RedisClient(control, role: "results", group: group, logger: logger)
        monitor = BatchMonitor(queue: queue, batch: batch)
    }

    /// Submits everything and returns at the batch's end, or soon after the first signal.
    func run() async throws -> Result {
        defer { queue.close() }
        defer { waiting.close() }
        let start = ContinuousClock.now
        let tally: BatchTally
        do {
            tally = try await follow()
        } catch is StoppedWaiting {
            throw stoppedWaiting()
        } catch {
            await giveUp(after: error)
            throw error
        }
        let seconds = start.duration(to: .now).inSeconds
        // One that has not begun may be somebody else's of the same name.
        let counters = hasBegun ? try await finalCounters() : BatchCounters.none
        if counters["results_dropped"] > 0 {
            Terminal.error(
                "megaton: \(Counted.of(counters["results_dropped"], "outcome")) came too fast for the ledger and "
                    + "\(counters["results_dropped"] == 1 ? "is" : "are") not in it."
            )
        }
        let unwritten = counters["cancelled"] - tally.cancelled
        if ledger != nil && unwritten > 0 {
            Terminal.error(
                "megaton: \(unwritten) of the cancelled jobs had not been taken in yet and \(unwritten == 1 ? "has" : "have") "
                    + "no line in the ledger; the same command again makes what is missing."
            )
        }
        let progress = progress.withLock { $0 }
        // A signal that came when all was done has interrupted nothing.
        let isWhole = progress.isComplete && counters["cancelled"] == 0 && counters.ended >= progress.submitted
        let summary = RunSummary(
            batch: batch,
            counters: counters,
            tally: tally,
            seconds: seconds,
            ledger: ledger?.path
        )
        return Result(
            summary: summary,
            errors: tally.table,
            skipped: progress.skipped,
            excluded: progress.excluded,
            unrepeated: progress.unrepeated,
            wasInterrupted: shutdown.level > .none && !isWhole,
            ranOutOfTime: progress.ranOutOfTime && !isWhole
        )
    }

    private func stoppedWaiting() -> Failure {
        let now = progress.withLock { $0 }
        let seconds = (options.timeout ?? 0).formatted()
        let count =
            "\(now.ended) of \(Counted.jobs(now.submitted)) \(now.submitted == 1 ? "has" : "have") ended after \(seconds) s"
        guard now.isComplete else {
            return Failure(
                code: 75,
                message:
                    "\(count), and not all were submitted; those that were go on. megaton batch cancel \(batch) ends "
                    + "them, and the same command again submits all."
            )
        }
        return Failure(
            code: 75,
            message: "\(count); the others go on. megaton batch wait \(batch) waits for them, megaton batch cancel "
                + "\(batch) ends them."
        )
    }

    /// Jobs of a retried ledger that were left out; known when all were submitted.
    var unrepeated: RetryLedger.LeftOut { progress.withLock { $0.unrepeated } }

    private var hasBegun: Bool { progress.withLock { $0.hasBegun } }

    /// Whatever it was (the ledger's disk is full, a list cannot be read): nobody follows the batch any more. What was refused
    /// as somebody else's is left alone.
    ///
    /// - Returns: false if it should be cancelled and could not be.
    @discardableResult private func giveUp(after error: any Error) async -> Bool {
        let isOurs = (error as? RedisError)?.saysBatchExists != true && progress.withLock(\.wasTried)
        guard hasBegun || isOurs else { return true }
        do {
            try await monitor.cancel()
            return true
        } catch let second {
            Terminal.error("megaton: the batch \(batch) could not be cancelled: \(second)")
            return false
        }
    }

    private func follow() async throws -> BatchTally {
        // If the start took all of the time, nothing is pushed.
        if let deadline, ContinuousClock.now >= deadline { _ = try timeIsUp() }
        return try await withThrowingTaskGroup(of: BatchTally?.self) { group in
            group.addTask {
                try await self.submit()
                self.progress.withLock { $0.isStopped = true }
                self.changed.fire()
                // A push that was on its way when the signal came has made a batch that was not there to be cancelled.
                if self.shutdown.level > .none && self.hasBegun { try await self.monitor.cancel() }
                return nil
            }
            group.addTask { try await self.collect() }
            if let deadline {
                group.addTask {
                    try await Task.sleep(until: deadline, clock: .continuous)
                    return try self.timeIsUp()
                }
            }
            group.addTask {
                await self.shutdown.wait(for: .drain)
                self.changed.fire()
                if !Task.isCancelled && self.hasBegun { try await self.monitor.cancel() }
                return nil
            }
            var tally: BatchTally?
            while tally == nil, let next = try await group.next() { tally = next }
            group.cancelAll()
            return tally ?? BatchTally()
        }
    }

    /// Ends the batch as an interruption does, or the wait for it.
    private func timeIsUp() throws -> BatchTally? {
        guard cancelsAtTimeout else { throw StoppedWaiting() }
        progress.withLock { $0.ranOutOfTime = true }
        shutdown.raise(to: .drain)
        return nil
    }

    /// Submits everything and returns as soon as that is done. The first signal ends that, and the second does not wait
    /// for Redis; what was submitted is cancelled then, as a batch that stays open never ends.
    ///
    /// - Returns: how many jobs.
    /// - Throws: `Failure` 130 after a signal.
    func submitOnly() async throws -> Int {
        defer { queue.close() }
        defer { waiting.close() }
        do {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await self.submit(unbounded: true) }
                group.addTask { await self.shutdown.wait(for: .abort) }
                _ = try await group.next()
                group.cancelAll()
            }
        } catch {
            await giveUp(after: error)
            throw error
        }
        let now = progress.withLock { $0 }
        if now.isComplete { return now.submitted }
        // After the second signal it may be unknown whether the first push was taken, or the batch is somebody else's.
        let isKnown = now.hasBegun || !now.wasTried
        let isCancelled = isKnown ? await giveUp(after: CancellationError()) : false
        let rest =
            isCancelled
            ? "what was submitted is cancelled." : "megaton batch cancel \(batch) ends the jobs that were submitted."
        throw Failure(
            code: 130,
            message: "interrupted before all jobs of the batch \(batch) were submitted; \(rest) The same command again "
                + "submits all."
        )
    }

    // MARK: - In

    private func submit(unbounded: Bool = false) async throws {
        let submitter = BatchSubmitter(
            queue: queue,
            batch: batch,
            policy: options.policy(keepsLedger: ledger != nil),
            onDelay: { Terminal.error("megaton: a push waits for Redis, a minute at the most: \($0.message)") }
        )
        let reader = try ReadingThread(selection, maker)
        defer { reader.stop() }
        while shutdown.level == .none, let jobs = try await reader.next(Self.readAtOnce) {
            if !jobs.isEmpty { progress.withLock { $0.wasTried = true } }
            // To ask for them again is the operator's word that they may run.
            if options.retryFailed != nil { try await queue.forgetDeaths(of: jobs.compactMap(\.job)) }
            for job in jobs { try await submitter.add(job.json, hasUniqueID: job.hasUniqueID) }
            // At the end of a chunk, so that few inputs start at once and many go in large pushes.
            try await submitter.flush()
            began(with: await submitter.submitted)
            if !unbounded { try await waitForRoom() }
        }
        // Interrupted, it stays open: not all of it was submitted.
        guard shutdown.level == .none else { return }
        progress.withLock { $0.wasTried = true }
        try await submitter.close()
        progress.withLock { progress in
            progress.hasBegun = true
            progress.isComplete = true
            (progress.skipped, progress.excluded) = reader.leftOut
            progress.unrepeated = reader.unrepeated
        }
    }

    private func began(with submitted: Int) {
        let isNew = progress.withLock { progress in
            progress.submitted = submitted
            defer { progress.hasBegun = submitted > 0 }
            return !progress.hasBegun && submitted > 0
        }
        if isNew { changed.fire() }
    }

    /// Outcomes come in at least once a second or not at all, and a tenth of that is soon enough to go on reading.
    private func waitForRoom() async throws {
        while shutdown.level == .none,
            progress.withLock({ $0.submitted - $0.ended }) > Self.outstandingLimit
        {
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    // MARK: - Out

    /// Until then a batch of that name is somebody else's, and so are its outcomes and its end.
    ///
    /// - Returns: false where it will not begin.
    private func begins() async throws -> Bool {
        while true {
            let now = progress.withLock { $0 }
            if now.hasBegun { return true }
            if now.isStopped || shutdown.level > .none { return false }
            await changed.wait()
            try Task.checkCancellation()
        }
    }

    /// Whether something else writes to the terminal meanwhile, so that a line that is replaced would be torn.
    private var isShared: Bool {
        if showsLogs { return true }
        guard let path = ledger?.path, let descriptor = Ledger.descriptor(of: path) else { return false }
        return isatty(descriptor) == 1
    }

    private func collect() async throws -> BatchTally {
        var tally = BatchTally()
        guard try await begins() else { return tally }
        if progress.withLock({ $0.submitted > 0 }) { try await ledger?.begin() }
        var reporter = ProgressReporter(isInteractive: Terminal.isInteractive && !isShared)
        var retries = WaitingJobs()
        defer { reporter.end() }
        var deadline: ContinuousClock.Instant?
        var isAbandoned = false
        while true {
            try Task.checkCancellation()
            let lines = try await outcomes(kept: tally.ended)
            if !lines.isEmpty {
                try await ledger?.append(lines)
                for line in lines { tally.add(line) }
                let ended = tally.ended
                progress.withLock { $0.ended = ended }
            }
            let now = progress.withLock { $0 }
            var shown = BatchProgress(ended: now.ended, submitted: now.submitted, failed: tally.failed)
            shown.isComplete = now.isComplete
            if lines.isEmpty { await retries.look(in: queue, for: batch) }
            (shown.waiting, shown.onlyWaits) = retries.text(of: now.submitted - now.ended)
            reporter.show(shown)
            if lines.isEmpty {
                var isOver = now.isComplete && tally.ended >= now.submitted
                // Also where it is not complete: somebody else may have cancelled it.
                if !isOver { isOver = try await isFinished(now) }
                if isOver {
                    // The last outcomes came in the same step as the batch's end.
                    let rest = try await outcomes(kept: tally.ended)
                    if rest.isEmpty { return tally }
                    try await ledger?.append(rest)
                    for line in rest { tally.add(line) }
                    continue
                }
            }
            if shutdown.level > .none {
                deadline = deadline ?? .now + Self.cancelPatience
                if shutdown.level == .abort || ContinuousClock.now > deadline ?? .now { return tally }
                if lines.isEmpty && isAbandoned {
                    Terminal.error(
                        "megaton: no worker is there: what waits for one ends when one comes, without a line here."
                    )
                    return tally
                }
                if lines.isEmpty && now.isStopped {
                    isAbandoned = try await abandon()
                    // What ended by that is read first.
                    if isAbandoned { continue }
                }
            }
            if lines.isEmpty { try await waitForOutcomes() }
            // The last ones are told as they come.
            if lines.count < Self.many && now.submitted - now.ended > Self.many {
                try await Task.sleep(for: Self.gathering)
            }
        }
    }

    /// While Redis is away nothing is lost: the workers and the queue wait for it, and so do we.
    private func outcomes(kept: Int) async throws -> [Data] {
        do {
            return try await monitor.outcomes(kept: kept)
        } catch {
            guard error.isTransient && shutdown.level == .none else { throw error }
            Terminal.error("megaton: waiting for Redis: \(error.message)")
            try await Task.sleep(for: .seconds(1))
            return []
        }
    }

    /// All has ended by now: a Redis that is away for a moment must not make a failure of that.
    private func finalCounters() async throws -> BatchCounters {
        let deadline = ContinuousClock.now + Self.finalPatience
        var backoff = Backoff()
        while true {
            do {
                return try await monitor.counters()
            } catch {
                guard error.isTransient, shutdown.level == .none, ContinuousClock.now < deadline else { throw error }
                try await Task.sleep(for: backoff.next(after: error))
            }
        }
    }

    /// - Throws: `Failure` 69 where Redis no longer has what it had acknowledged: the batch would never end.
    private func isFinished(_ progress: Progress) async throws -> Bool {
        let counters: BatchCounters
        do {
            counters = try await monitor.counters()
        } catch {
            // `outcomes` meets the same and tells of it.
            guard error.isTransient else { throw error }
            return false
        }
        let isWhole = counters["closed"] == 1 && counters["submitted"] >= progress.submitted
        if progress.isComplete && !isWhole && !counters.isFinished {
            throw Failure(
                code: 69,
                message: "Redis has lost jobs: of \(progress.submitted) that it had acknowledged, batch \(batch) has "
                    + "\(counters["submitted"]). Its disk was slow when it died, or a replica took over that had not got them "
                    + "yet. Submit again: what is done is found in the cache."
            )
        }
        return counters.isFinished
    }

    /// Cancels the batch where no worker is there: what is ready ends when one comes, which is not waited for.
    ///
    /// - Returns: whether none is there.
    private func abandon() async throws -> Bool {
        do {
            // The status is the queue's alone: no cache is asked.
            let status = try await Inspector(queue: queue, cache: waiting).status()
            guard status.livingWorkers.isEmpty else { return false }
            try await monitor.cancel()
        } catch {
            // `outcomes` meets the same and tells of it.
            guard error.isTransient else { throw error }
            return false
        }
        return true
    }

    private func waitForOutcomes() async throws {
        do {
            try await monitor.waitForOutcome(on: waiting)
        } catch {
            // `outcomes` meets the same and tells of it.
            guard error.isTransient else { throw error }
            try await Task.sleep(for: .milliseconds(100))
        }
    }
}
