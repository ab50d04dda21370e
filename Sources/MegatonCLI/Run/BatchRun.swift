import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import MegatonRedis
import NIOPosix
import Synchronization

/// Submits one batch and follows it to its end: reads inputs, pushes jobs and collects outcomes concurrently.
final class BatchRun: Sendable {
    /// Thrown when `--timeout` is over and the batch continues without a waiting command.
    private struct StoppedWaiting: Error {}

    let options: BatchOptions
    let batch: String
    let selection: InputSelection
    let builder: JobBuilder
    let remote: RemoteInputs?
    /// Whether workers also write to this process' standard error.
    private let showsLogs: Bool
    let queue: ShardedQueue
    let submitter: ShardedSubmitter
    private let monitor: BatchMonitor
    let waiting: RedisClient
    let ledger: Ledger?
    /// The shards, and the cache with their renditions; nil if none are written.
    let shards: Shards?
    let shutdown: ShutdownSignal
    /// The end of `--timeout`; nil if there is none.
    private let deadline: ContinuousClock.Instant?
    /// Whether the jobs left after `--timeout` are cancelled; otherwise they continue.
    let cancelsAtTimeout: Bool
    /// Whether the queue is for this batch alone.
    let ownsQueue: Bool
    /// Signaled when all jobs have ended, and the rest needs no workers.
    private let jobsEnded: AsyncSignal?
    let progress = Mutex(Progress())
    /// Ids of the submitted jobs, if a ledger is written. Apart from the progress, of which copies are taken: an id
    /// that is added while there is a copy would copy all the others.
    let ids: Mutex<SubmittedIDs>
    let readAhead: ReadAhead
    /// Whether jobs were given the priority `high`: from then on none is raised to it, and it stays in the ledger.
    let hasHighJobs = Atomic(false)
    /// Signaled when the batch has begun, or will not begin.
    let changed = AsyncSignal()

    /// Number of outcomes from which a read of the ledger is worthwhile. Fewer outcomes are left to accumulate while
    /// more than this are awaited: a read for each would cost as much as the rest of the queue.
    private static let readThreshold = 100
    private static let batchingWindow: Duration = .milliseconds(50)
    /// Time limit for the rest of an interrupted batch to end.
    private static let cancelTimeout: Duration = .seconds(10)
    /// Time limit for retries of the last read of the counters.
    private static let finalReadTimeout: Duration = .seconds(60)

    /// Connects to the queue.
    ///
    /// - Throws: if Redis is unreachable, or the servers are not those of the queue's shards.
    init(
        _ options: BatchOptions,
        batch: String,
        selection: InputSelection,
        builder: JobBuilder,
        showsLogs: Bool = false,
        address: QueueAddress,
        ledger: Ledger?,
        remote: RemoteInputs? = nil,
        shutdown: ShutdownSignal,
        deadline: ContinuousClock.Instant?,
        cancelsAtTimeout: Bool = true,
        ownsQueue: Bool = false,
        keepsOutcomes: Bool = true,
        shards: ShardOutput? = nil,
        caches: [RedisConfiguration] = [],
        jobsEnded: AsyncSignal? = nil
    ) async throws {
        self.options = options
        self.deadline = deadline
        self.cancelsAtTimeout = cancelsAtTimeout
        self.ownsQueue = ownsQueue
        self.jobsEnded = jobsEnded
        self.batch = batch
        ids = Mutex(SubmittedIDs(batch: batch))
        self.selection = selection
        self.builder = builder
        self.remote = remote
        self.showsLogs = showsLogs
        self.ledger = ledger
        // Without a ledger no outcome is read, and without workers that end with the command all jobs are pushed at
        // once, in their order.
        readAhead = ReadAhead(isFollowed: ledger != nil && cancelsAtTimeout)
        self.shutdown = shutdown
        let logger = LogOptions.logger("megaton.submit", level: .error)
        let group = MultiThreadedEventLoopGroup.singleton
        self.shards = shards.map { output in
            Shards(output: output, cache: RedisDataCache(servers: caches, group: group, logger: logger))
        }
        queue = try await ShardedQueue.open(address, role: "submit", group: group, logger: logger)
        waiting = RedisClient(address.server(0), role: "results", group: group, logger: logger)
        submitter = ShardedSubmitter(
            queue: queue,
            batch: batch,
            policy: options.policy(keepsLedger: keepsOutcomes),
            stopsWaiting: { shutdown.level > .none },
            onDelay: { Terminal.error("megaton: waiting for Redis, for up to a minute: \($0.message)") },
            onRestore: { Self.reportRestored($0, batch) }
        )
        monitor = BatchMonitor(queue: queue, batch: batch)
    }

    /// Submits all jobs and returns at the end of the batch, or soon after the first signal.
    func run() async throws -> Result {
        defer { queue.close() }
        defer { waiting.close() }
        defer { shards?.cache.close() }
        let start = ContinuousClock.now
        let tally: BatchTally
        do {
            tally = try await follow()
        } catch is StoppedWaiting {
            throw await stoppedWaiting()
        } catch {
            throw explained(error, isCancelled: await giveUp())
        }
        if progress.withLock({ $0.isComplete }), shutdown.level == .none { jobsEnded?.signal() }
        let seconds = start.duration(to: .now).inSeconds
        // A batch that has not begun may be another submitter's batch of the same name.
        let counters = hasBegun ? try await finalCounters() : BatchCounters.none
        let progress = progress.withLock { $0 }
        let unwritten = reportUnwritten(counters, tally)
        let keepsOutcomes = ledger?.path != nil || shards != nil
        let isWhole = Self.isWhole(progress, counters, read: keepsOutcomes ? tally.ended : nil)
        let lost = progress.submitted - tally.ended - unwritten
        // Without a ledger, the counters have the results.
        let needsLines = ledger?.path != nil || counters.ended < progress.submitted
        let isFollowed = hasBegun && progress.isComplete && shutdown.level == .none
        let missing =
            isFollowed && needsLines
            ? MissingOutcomes(lost, counters, ids.withLock { $0 }, progress.history) : nil
        // The last shard of an interrupted run stays open for the next one.
        if progress.isComplete && (shutdown.level == .none || isWhole) { try await shards?.output.finish() }
        if let remark = shards?.output.remark { Terminal.note("megaton: \(remark)") }
        var summary = RunSummary(
            batch: batch,
            counters: counters,
            tally: tally,
            seconds: seconds,
            ledger: ledger?.path
        )
        summary.move(shards?.output.lostCount ?? 0)
        return Result(
            summary: summary,
            errors: tally.table,
            leftOut: progress.leftOut,
            notRetried: progress.notRetried,
            hasOtherSamples: shards?.output.remark != nil,
            wasInterrupted: shutdown.level > .none && !isWhole,
            ranOutOfTime: progress.ranOutOfTime && !isWhole,
            // Of a batch that was followed to its end, `missing` has them: a failover may have taken counts back.
            openJobs: progress.wasAbandoned || isFollowed ? 0 : summary.open,
            isReadWhole: progress.isComplete,
            damaged: tally.damaged,
            missing: missing
        )
    }

    /// The error that ended the batch; for a full Redis with batch and remedy. Reports the jobs that have ended.
    private func explained(_ error: any Error, isCancelled: Bool) -> any Error {
        let now = progress.withLock { $0 }
        let code = (error as? RedisError)?.code
        // Their messages have remedies of their own.
        let isRemedyKnown = code.map { [.jobsLost, .batchClosed, .otherReader].contains($0) } ?? false
        if now.ended > 0 {
            let advice = isRemedyKnown ? nil : options.repetition
            Terminal.error("megaton: \(BatchFailure.progress(now.ended, of: now.submitted, advice))")
        }
        let missing = MissingOutcomes(now.submitted - now.ended, .none, ids.withLock { $0 }, now.history)
        if code == .jobsLost { missing?.report(options.repetition) }
        guard let error = error as? RedisError, error.code == .outOfMemory else { return error }
        let controls = queue.shards.map(\.redis.configuration)
        return BatchFailure.isFull(error, controls, batch, submitted: now.submitted, isCancelled: isCancelled)
    }

    /// Jobs that a retry left out of its ledger; known when all jobs were submitted.
    var notRetried: RetryLedger.NotRetried { progress.withLock { $0.notRetried } }

    /// Inputs that were left out; known when all jobs were submitted.
    var leftOut: LeftOutInputs { progress.withLock { $0.leftOut } }

    private var hasBegun: Bool { progress.withLock { $0.hasBegun } }

    private func follow() async throws -> BatchTally {
        // Nothing is pushed if the start took all of the time.
        if let deadline, ContinuousClock.now >= deadline { _ = try timeIsUp() }
        return try await withThrowingTaskGroup(of: BatchTally?.self) { group in
            group.addTask {
                try await self.submit()
                self.progress.withLock { $0.isStopped = true }
                self.changed.signal()
                // A push in flight at the signal may have created the batch after the attempt to cancel it. With
                // several shards it exists before its first job.
                guard self.shutdown.level > .none else { return nil }
                if self.hasBegun {
                    try await self.submitter.cancel()
                } else if self.queue.isDivided {
                    // Nothing else reports the error of a batch without jobs.
                    _ = await self.giveUp()
                }
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
                self.changed.signal()
                if Task.isCancelled || !self.hasBegun { return nil }
                self.reportEnding()
                try await self.submitter.cancel()
                return nil
            }
            var tally: BatchTally?
            while tally == nil, let next = try await group.next() { tally = next }
            group.cancelAll()
            return tally ?? BatchTally()
        }
    }

    /// Ends the batch like an interruption, or stops waiting for it.
    private func timeIsUp() throws -> BatchTally? {
        guard cancelsAtTimeout else { throw StoppedWaiting() }
        progress.withLock { $0.ranOutOfTime = true }
        shutdown.raise(to: .drain)
        return nil
    }

    /// Submits all jobs and returns. The first signal stops the submission, and the second one does not wait for Redis.
    /// The submitted jobs are then cancelled, as a batch that stays open never ends.
    ///
    /// - Returns: the number of jobs.
    /// - Throws: `CLIError` 130 after a signal.
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
            throw explained(error, isCancelled: await giveUp())
        }
        let now = progress.withLock { $0 }
        if now.isComplete { return now.submitted }
        // Otherwise it is unknown whether the first push succeeded, or whether another submitter owns the batch. With
        // several shards the batch exists before its first job; after the second signal Redis is not waited for.
        let isKnown = now.hasBegun || !now.wasTried || queue.isDivided && shutdown.level < .abort
        let isCancelled = isKnown ? await giveUp() : false
        throw BatchFailure.interrupted(batch, options.repetition, wasTried: now.wasTried, isCancelled: isCancelled)
    }

    // MARK: - Out

    /// Waits until the batch has begun. Before that, a batch of this name belongs to another submitter, and so do its
    /// outcomes.
    ///
    /// - Returns: false if it will not begin.
    private func begins() async throws -> Bool {
        while true {
            let now = progress.withLock { $0 }
            if now.hasBegun { return true }
            if now.isStopped || shutdown.level > .none { return false }
            await changed.wait()
            try Task.checkCancellation()
        }
    }

    /// Whether other output goes to the terminal meanwhile, which would tear a line that is replaced.
    private var isShared: Bool {
        showsLogs || ledger?.path.flatMap(LedgerPath.descriptor(of:)).map { isatty($0) == 1 } ?? false
    }

    private func collect() async throws -> BatchTally {
        var tally = BatchTally()
        var cursor = OutcomeCursors(queue: queue, batch: batch)
        defer { progress.withLock { $0.history = cursor.history } }
        guard try await begins() else { return tally }
        if progress.withLock({ $0.submitted > 0 }) { try await ledger?.begin() }
        var reporter = ProgressReporter(isInteractive: Terminal.isInteractive && !isShared)
        var retries = WaitingJobs()
        var workers = WorkerWatch()
        defer { reporter.end() }
        var deadline: ContinuousClock.Instant?
        var obstacle: String?
        while true {
            try Task.checkCancellation()
            let page = try await outcomes(&cursor)
            let lines = page ?? []
            try await write(lines, &tally)
            let now = progress.withLock { $0 }
            // After a signal, jobs that were read are not pushed any more.
            let read = shutdown.level == .none ? readAhead.progress : (count: 0, isAtEnd: false)
            let known = max(now.submitted, read.count)
            var shown = BatchProgress(ended: now.ended, submitted: known, failed: tally.failed)
            shown.isComplete = now.isComplete || read.isAtEnd
            // While Redis is away, other questions would wait for it too, and delay the outcomes of other shards.
            let isIdle = page?.isEmpty ?? false
            if isIdle { await retries.poll(in: queue, for: batch) }
            // A run has workers of its own, which are started again.
            if !cancelsAtTimeout && page != nil {
                await workers.poll(hasOutcomes: !isIdle) { () async throws(RedisError) in
                    // Many clients wait at the same time, and a status reads all workers and intakes.
                    if try await queue.hasLivingWorker(timeout: WorkerWatch.interval) { return nil }
                    return QueueObstacle.missingWorker(try await Inspector(queue: queue, cache: waiting).status())
                }
            }
            (shown.waiting, shown.onlyWaits) = retries.text(of: now.submitted - now.ended)
            reporter.show(shown)
            if lines.isEmpty {
                let hasAll = now.isComplete && tally.ended >= now.submitted
                // Checked for an incomplete batch too: another process may have cancelled it.
                let isOver = hasAll || !isIdle ? hasAll : try await isFinished(now)
                if isOver {
                    // The last outcomes came in the same step as the end of the batch.
                    let rest = try await outcomes(&cursor)
                    if rest?.isEmpty ?? hasAll { return tally }
                    try await write(rest ?? [], &tally)
                    continue
                }
            }
            if shutdown.level > .none {
                deadline = deadline ?? .now + Self.cancelTimeout
                if shutdown.level == .abort || ContinuousClock.now > deadline ?? .now { return tally }
                if lines.isEmpty, let obstacle {
                    progress.withLock { $0.wasAbandoned = true }
                    reportAbandoned(now.submitted - now.ended, obstacle)
                    return tally
                }
                if lines.isEmpty && now.isStopped {
                    obstacle = try await abandon()
                    // Outcomes of that cancellation are read first.
                    if obstacle != nil { continue }
                }
            }
            if isIdle { try await waitForOutcomes() }
            // The last outcomes are reported as they arrive.
            if lines.count < Self.readThreshold && now.submitted - now.ended > Self.readThreshold {
                try await Task.sleep(for: Self.batchingWindow)
            }
        }
    }

    private func write(_ lines: [Data], _ tally: inout BatchTally) async throws {
        var lines = lines
        if let shards, !lines.isEmpty { lines = try await shards.store(lines, unless: shutdown) }
        let outcomes = lines.map(OutcomeFields.init)
        if !lines.isEmpty { try await ledger?.append(restored(lines, outcomes)) }
        for outcome in outcomes { tally.add(outcome) }
        readAhead.record(outcomes.compactMap { $0 })
        progress.withLock { [ended = tally.ended] in $0.ended = ended }
        try tally.checkDisk()
    }

    /// Nothing is lost while Redis is unreachable: the workers and the queue wait for it, and so does this command.
    ///
    /// - Returns: nil if Redis, or one of several, is unreachable for the moment: there may be outcomes.
    private func outcomes(_ cursor: inout OutcomeCursors) async throws -> [Data]? {
        do {
            let returns = cursor.history.returns
            defer { if cursor.history.returns > returns { cursor.history.reportReturn() } }
            return try await cursor.next()
        } catch {
            guard error.isTransient && shutdown.level == .none else { throw error }
            if cursor.hasNewFailure { Terminal.error("megaton: waiting for Redis: \(error.message)") }
            try await Task.sleep(for: .seconds(1))
            return nil
        }
    }

    /// All jobs have ended by now, so that a Redis that is unreachable for a moment must not make the run fail.
    private func finalCounters() async throws -> BatchCounters {
        let deadline = ContinuousClock.now + Self.finalReadTimeout
        var backoff = Backoff()
        return try await retrying(
            until: shutdown.level > .none || ContinuousClock.now >= deadline,
            cancellation: CancellationError()
        ) {
            try await monitor.counters()
        } pauseAfter: { error in
            (error as? RedisError)?.isTransient == true ? backoff.next(after: error) : nil
        }
    }

    /// Also submits jobs again that Redis has lost, so that the batch can end.
    ///
    /// - Throws: `.jobsLost` if that is impossible.
    private func isFinished(_ progress: Progress) async throws -> Bool {
        do {
            let counters = try await monitor.counters()
            // A shard that has lost the batch has no part in the counters.
            let lacksJobs = queue.isDivided && counters["submitted"] < progress.submitted && counters["cancelled"] == 0
            let isFinished = counters.isFinished && !lacksJobs
            if !isFinished && progress.isComplete { try await submitter.restore() }
            return isFinished
        } catch {
            // `outcomes` meets the same error and reports it.
            guard error.isTransient else { throw error }
            return false
        }
    }

    private func waitForOutcomes() async throws {
        do {
            try await monitor.waitForOutcome(on: waiting)
        } catch {
            // `outcomes` meets the same error and reports it.
            guard error.isTransient else { throw error }
            try await Task.sleep(for: .milliseconds(100))
        }
    }
}
