internal import Foundation
internal import Logging
internal import MegatonCore
internal import MegatonPipeline
internal import MegatonRedis

/// Runs each claimed job of a worker once, from its claim to its settlement in Redis.
///
/// A class, as each job has closures that hold it, and a struct of this size would be copied for each of them.
final class JobHandler: Sendable {
    let queue: JobQueue
    let completions: CompletionBatcher
    let runner: any JobRunning
    let running: RunningJobs
    let statistics: StatisticsRecorder
    let metrics = JobMetrics()
    let retry: RetryPolicy
    let givenUpHosts = GivenUpHosts()
    let sourceFailures = SourceFailures()
    let maximumStalls: Int
    /// The worker's name.
    let worker: String
    let history: History
    /// The program's options by library setting; see `Worker.Configuration`.
    let optionNames: [String: String]
    let logger: Logger
    /// Places of the worker, of which a pack uses those that are free.
    let places: Int
    /// Time after which the sources of a pack that have ended are settled, and other jobs may have its place.
    let packInterval: Duration
    /// Called with the host of each job that waits for it.
    let didHold: @Sendable (String) -> Void
    /// Makes the spans of attempts.
    let spans: SpanSource

    /// One attempt at a claimed job, and its cost.
    private struct Attempt {
        let job: ActiveJob
        let parsed: Result<Job, JobError>
        let metrics: PipelineMetrics
        private let start: ContinuousClock.Instant

        init(
            _ job: ActiveJob,
            _ parsed: Result<Job, JobError>,
            _ metrics: PipelineMetrics,
            since start: ContinuousClock.Instant
        ) {
            (self.job, self.parsed, self.metrics, self.start) = (job, parsed, metrics, start)
        }

        /// Seconds since the claim.
        var seconds: Double { start.duration(to: .now).inSeconds }
    }

    init(
        queue: JobQueue,
        completions: CompletionBatcher,
        runner: any JobRunning,
        running: RunningJobs,
        statistics: StatisticsRecorder,
        retry: RetryPolicy,
        maximumStalls: Int,
        worker: String,
        history: History,
        optionNames: [String: String] = [:],
        logger: Logger,
        places: Int = 1,
        packInterval: Duration = PackRun.settleInterval,
        didHold: @escaping @Sendable (String) -> Void = { _ in },
        spans: SpanSource = SpanSource()
    ) {
        self.queue = queue
        self.completions = completions
        self.runner = runner
        self.running = running
        self.statistics = statistics
        self.retry = retry
        self.maximumStalls = maximumStalls
        self.worker = worker
        self.history = history
        self.optionNames = optionNames
        self.logger = logger
        self.places = places
        self.packInterval = packInterval
        self.didHold = didHold
        self.spans = spans
    }

    /// Runs the job and settles it, or leaves it to the worker that has its lease now.
    func handle(_ job: ActiveJob) async {
        defer { running.remove(job) }
        await history.note(HistoryEvent(.claim, id: job.id, attempt: job.attempt))
        metrics.countClaim(job)
        if job.packSize == 0 && job.json.count <= Self.smallJSON {
            await handleSingle(job)
        } else {
            // To read a megabyte takes 10 ms, and the images of a pack run in child tasks: not for the event loop of
            // the claims.
            await withTaskExecutorPreference(globalConcurrentExecutor) {
                if job.packSize > 0 { await handlePack(job) } else { await handleSingle(job) }
            }
        }
    }

    /// Bytes of a job that is read on the event loop of the claims.
    private static let smallJSON = 64 << 10

    private func handleSingle(_ job: ActiveJob) async {
        let start = ContinuousClock.now
        let parsed = Result { () throws(JobError) in try Job(json: job.json, wasValidated: true) }
        guard let scope = spans.scope(continuing: (try? parsed.get())?.traceparent) else {
            _ = await finish(Attempt(job, parsed, PipelineMetrics(spans: nil), since: start))
            return
        }
        _ = await scope.run(.job) { () async -> AttemptEnd in
            // Below the span that has just begun.
            await finish(Attempt(job, parsed, PipelineMetrics(spans: spans.current()), since: start))
        } facts: { (end: Result<AttemptEnd, Never>) in
            facts(of: job, try? parsed.get(), end.get())
        }
    }

    /// Runs an attempt and settles it.
    private func finish(_ attempt: Attempt) async -> AttemptEnd {
        let job = attempt.job
        let result = await run(attempt)
        let seconds = attempt.seconds
        metrics.count(attempt.metrics, seconds: seconds)
        // The settlement of a job that is done may claim the next one for its place (`PiggybackClaiming`).
        var isDone = false
        if case .done = result { isDone = true }
        running.markSettling(job, notifies: !isDone)
        do {
            let settlement = try await untilAcknowledged(job) { () throws(RedisError) in
                try await settle(attempt, result: result, seconds: seconds)
            }
            if let settlement { await note(settlement, of: job) }
            return AttemptEnd(result: result, settlement: settlement)
        } catch {
            // The lease runs out and the job runs again; its results are in the cache by then.
            logger.warning(
                "a job's completion could not be reported; the job runs again after its lease",
                metadata: [LogKey.jobID: "\(job.id)", LogKey.error: "\(error)"]
            )
            return AttemptEnd(result: result, settlement: nil)
        }
    }

    func note(_ settlement: Settlement, of job: ActiveJob) async {
        let result = settlement.result.rawValue
        await history.note(
            HistoryEvent(.settle, id: job.id, attempt: job.attempt, result: "\(settlement.action)/\(result)")
        )
        if settlement.result == .damaged {
            logger.error(
                "a job has ended, but its batch may not have counted it: a key of the batch is damaged",
                metadata: [LogKey.jobID: "\(job.id)", LogKey.batch: "\(job.batch)"]
            )
        }
        if settlement.result.wasApplied { return }
        statistics.add("late_\(result)", 1)
        metrics.countRefusal()
        logger.info(
            "a settlement was refused: the job has ended or another attempt has it",
            metadata: [LogKey.jobID: "\(job.id)", LogKey.reply: "\(result)"]
        )
    }

    /// Repeats a write that may not have reached Redis because a connection broke, for as long as this worker holds the
    /// lease. Each of these scripts changes nothing the second time.
    func untilAcknowledged(
        _ active: ActiveJob,
        write: () async throws(RedisError) -> Settlement?
    ) async throws(RedisError) -> Settlement? {
        var backoff = Backoff()
        var isRepeated = false
        return try await retrying(until: ContinuousClock.now >= active.validUntil) { () throws(RedisError) in
            let settlement = try await write()
            // The repetition was refused: either the first call was applied, or the lease has run out since. The two
            // cannot be distinguished, and in both cases nothing is left to report.
            return isRepeated && settlement?.result.wasApplied != true ? nil : settlement
        } pauseAfter: { error in
            guard error.isTransient else { return nil }
            isRepeated = true
            return backoff.next(after: error)
        }
    }

    /// Repeats a command that may reach Redis twice while connections break, for as long as this worker holds the
    /// lease: without its reply, the job would run again after the lease, and count as one that a worker died with.
    func duringLease<Value>(
        _ active: ActiveJob,
        _ command: () async throws(RedisError) -> Value
    ) async throws(RedisError) -> Value {
        var backoff = Backoff()
        return try await retrying(until: ContinuousClock.now >= active.validUntil) { () throws(RedisError) in
            try await command()
        } pauseAfter: { error in
            error.isTransient ? backoff.next(after: error) : nil
        }
    }

    var log: JobLog { JobLog(logger: logger) }

    private func isPoison(_ job: ActiveJob) -> Bool { job.isQuarantined || job.stalls > maximumStalls }

    /// Runs the job until it ends or is stopped.
    ///
    /// - Returns: nil if it was stopped; `active.reason` has the reason.
    private func run(_ attempt: Attempt) async -> JobRunner.Result? {
        let active = attempt.job
        if active.isCancelled {
            active.stop(.batchCancelled)
            return nil
        }
        if isPoison(active) { return .failed(Worker.poison(active, isQuarantined: active.isQuarantined)) }
        if active.excessSize > 0 { return .failed(Worker.tooLarge(active)) }
        let job: Job
        do throws(JobError) {
            job = try attempt.parsed.get()
        } catch {
            // It was readable when it was admitted, so another version of the program admitted it.
            return .failed(
                ImagePipeline.Error(.invalidURL, FieldProblem.sentence("The job cannot be read: \(error.message)"))
            )
        }
        let (maximumFailureAge, metrics) = (maximumFailureAge(for: active, job: job), attempt.metrics)
        active.observeFetch(from: job.host) { metrics.fetchStart }
        defer { active.endFetch() }
        // Unstructured, as a stop has to cancel it from outside. It ends before this call, which waits for it.
        let work = Task { await runner.run(job, maximumFailureAge: maximumFailureAge, metrics: metrics) }
        // In a task of its own, so that the heartbeat does not wait for the cancellation handlers of the job. Safe: a
        // cancellation that comes after the end does nothing.
        active.onStop { Task { work.cancel() } }
        let result = await withTaskCancellationHandler {
            await work.value
        } onCancel: {
            work.cancel()
        }
        active.onStop(nil)
        if case .done = result, let time = metrics.lastFetch { running.noteFetch(time) }
        // The result of work that was cancelled is not that of the job.
        return active.reason == nil && !Task.isCancelled ? result : nil
    }

    /// Maximum age of a remembered failure that may answer this attempt.
    ///
    /// A retry accepts only failures that are younger than its own previous attempt, so that a job is never answered by
    /// its own failure. No clocks are compared: the previous attempt ended at least the shortest delay ago.
    func maximumFailureAge(for active: ActiveJob, job: Job) -> Duration? {
        // The worker that died with it may have stored a failure a moment ago.
        if active.stalls > 0 { return .zero }
        if active.counted > 1 { return retry.shortestDelay(after: active.counted - 1) }
        return job.ignoresRememberedFailures ? .zero : nil
    }

    /// A settlement sent to Redis: its name (the status of a completion, or `retry`, `wait`, `hold`, `released`
    /// or `pack`), and the reply.
    typealias Settlement = (action: String, result: SettleResult)

    /// - Returns: nil if this worker may not write about the job any more.
    private func settle(
        _ attempt: Attempt,
        result: JobRunner.Result?,
        seconds: Double
    ) async throws(RedisError) -> Settlement? {
        let job = attempt.job
        var outcome = outcome(of: attempt, seconds: seconds)
        let counters = AttemptCounters(attempt.metrics.counts, result).byName
        switch result {
        case .done(let outputs):
            outcome.outputs = outputs
            if let source = try? attempt.parsed.get().source { sourceFailures.forget(source) }
        case .failed(let error) where error.hostTurn?.isGivenUp == false && !retry.asksForTooLong(error):
            guard let turn = error.hostTurn else { return nil }
            didHold(turn.host)
            let reply = try await queue.hold(job, worker: worker, for: turn, counters: counters)
            if reply.wasApplied { metrics.countHold() }
            return ("hold", reply)
        case .failed(let error):
            if let turn = error.hostTurn, turn.isGivenUp, givenUpHosts.isNews(turn.host, at: .now) {
                try await duringLease(job) { () throws(RedisError) in try await queue.giveUp(turn.host) }
            }
            let attempts = (try? attempt.parsed.get().attempts) ?? 1  // An unreadable job stays unreadable.
            let isGivenUp = error.hostTurn?.isGivenUp == true
            if !isGivenUp, let delay = retry.delay(after: job.counted, of: attempts, error: error, free: job.free) {
                let isFree = retry.isFree(error, free: job.free)
                let reply = try await queue.retry(
                    job,
                    worker: worker,
                    after: delay,
                    countsAttempt: !isFree,
                    counters: counters
                )
                if reply.wasApplied {
                    let source = try? attempt.parsed.get().source
                    if let source, !isFree { sourceFailures.note(error, of: source) }
                    metrics.countRetry(after: error.code.rawValue)
                    log.retry(job, source: source, after: error, in: delay)
                }
                return (isFree ? "wait" : "retry", reply)
            }
            fail(&outcome, of: attempt, error: error, code: code(of: job, error: error))
        case nil:
            switch job.reason {
            case .batchCancelled: outcome.status = .cancelled
            case .quarantined:
                let error = Worker.poison(job, isQuarantined: true)
                fail(&outcome, of: attempt, error: error, code: Self.poison)
            case .shutdown:
                let released = try await queue.release([(job.key.text, job.attempt)], worker: worker, leaves: false)
                if released == 1 { metrics.countRelease() }
                return ("released", released == 1 ? .ok : .fenced)
            case .leaseLost, nil: return nil
            }
        }
        let dead = DeadLetter.Content(of: job, outcome: outcome)
        let completion = JobCompletion(
            job: job,
            outcome: outcome,
            dead: dead,
            counters: counters,
            of: try? attempt.parsed.get(),
            replyingTo: reply(of: attempt)
        )
        let reply = try await completions.report(completion) { running.placeFreed() }
        if reply.wasApplied {
            metrics.count(outcome)
            statistics.add(thumbnailOf: outcome, batch: job.batch)
            log.end(outcome, batch: job.batch, bytesIn: attempt.metrics.counts.bytesIn)
        }
        return (outcome.status.rawValue, reply)
    }

    private func outcome(of attempt: Attempt, seconds: Double) -> JobOutcome {
        let (job, parsed) = (attempt.job, attempt.parsed)
        // A job that cannot be read is shown as its raw text.
        let source =
            (try? parsed.get().source)?.truncated(to: JobOutcome.maximumSource)
            ?? String(decoding: job.json.prefix(256), as: UTF8.self)
        var outcome = JobOutcome(
            id: job.id,
            source: source,
            status: .done,
            attempts: job.counted,
            seconds: seconds,
            worker: worker,
            labels: try? parsed.get().labels
        )
        outcome.times = JobOutcome.Times(seconds: seconds, attempt.metrics.times)
        let notes = attempt.metrics.notes
        outcome.notes = notes.isEmpty ? nil : notes
        outcome.facts = attempt.metrics.facts
        return outcome
    }

    /// Where the outcome of an attempt is sent. A job that cannot be read as a whole may still have this field.
    private func reply(of attempt: Attempt) -> JobReply? {
        switch attempt.parsed {
        case .success(let job): job.reply
        case .failure: JobIdentity(attempt.job.json).reply
        }
    }

    static let poison = "poison"

    func code(of job: ActiveJob, error: ImagePipeline.Error) -> String {
        if isPoison(job) { return Self.poison }
        return job.excessSize > 0 ? "invalid_job" : error.code.rawValue
    }

    /// The message of the outcome of a job that fails for good.
    ///
    /// - Parameter source: of the job; nil if it cannot be read.
    func message(of error: ImagePipeline.Error, for source: String?) -> String {
        var message = error.message
        if let delay = error.requestedDelay, retry.asksForTooLong(error) {
            let (asked, longest) = (Int(delay.rounded(.up)), Int(retry.maximumWait.inSeconds))
            let reason =
                " The job is not retried: a wait of \(asked) s exceeds the maximum wait of the retry policy, "
                + "\(longest) s."
            message = FieldProblem.sentence(message) + JobRunner.naming(optionNames, in: reason)
        }
        if let turn = error.hostTurn, turn.isGivenUp {
            let own = source.flatMap { sourceFailures.last(of: $0, besides: error) }
            message =
                FieldProblem.sentence(message)
                + (own.map { FieldProblem.sentence(" This source failed with \($0)") } ?? "")
                + " Jobs of host \(turn.host) no longer wait for it; the same command again or dead requeue starts them."
        }
        return message
    }

    private func fail(
        _ outcome: inout JobOutcome,
        of attempt: Attempt,
        error: ImagePipeline.Error,
        code: String
    ) {
        outcome.status = .failed
        outcome.error = .init(
            code: code,
            message: message(of: error, for: try? attempt.parsed.get().source),
            retryable: error.isRetryable
        )
        // An unreadable job cannot be included; the error above describes the problem.
        if attempt.job.json.count <= JobOutcome.maximumJobSize { outcome.job = try? attempt.parsed.get() }
    }
}

extension DeadLetter.Content {
    /// Content of the dead letter of a failed job; nil if the job has not failed.
    init?(of job: ActiveJob, outcome: JobOutcome) {
        guard let error = outcome.error else { return nil }
        self.init(
            code: error.code,
            message: error.message,
            attempts: outcome.attempts,
            worker: outcome.worker,
            batch: job.batch.isEmpty ? nil : job.batch,
            labels: outcome.labels,
            job: String(decoding: job.json, as: UTF8.self)
        )
    }
}
