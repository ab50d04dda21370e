internal import Foundation
internal import Logging
internal import MegatonPipeline
internal import MegatonRedis

/// One attempt at one claimed job, from its claim to what Redis is told of its end.
struct JobHandler: Sendable {
    let queue: JobQueue
    let runner: JobRunner
    let running: RunningJobs
    let statistics: StatisticsRecorder
    let retry: RetryPolicy
    let maximumStalls: Int
    /// The worker's name.
    let worker: String
    let logger: Logger

    /// Does the job and ends it, or leaves it to whoever has its lease now.
    func handle(_ entry: RunningJobs.Entry) async {
        defer { running.remove(entry) }
        let job = entry.job
        let start = ContinuousClock.now
        let metrics = PipelineMetrics()
        let parsed = Result { () throws(JobError) in try Job(json: job.json, wasValidated: true) }
        let result = await attempt(entry, parsed, metrics)
        let seconds = start.duration(to: .now).inSeconds
        do {
            let verdict = try await untilTold(entry) { () throws(RedisError) in
                try await settle(entry, parsed, result, metrics, seconds)
            }
            if let verdict, verdict != .ok {
                statistics.add("late_\(verdict.rawValue)", 1)
                logger.info(
                    "the job was no longer ours",
                    metadata: [LogKey.jobID: "\(job.id)", LogKey.verdict: "\(verdict.rawValue)"]
                )
            }
        } catch {
            // The lease runs out and the job is done again; its results are in the cache by then.
            logger.warning(
                "a job's end could not be told",
                metadata: [LogKey.jobID: "\(job.id)", LogKey.error: "\(error)"]
            )
        }
    }

    /// Repeats what a connection that broke may have kept from Redis, for as long as the lease is ours: each of these
    /// scripts changes nothing the second time.
    private func untilTold(
        _ entry: RunningJobs.Entry,
        _ tell: () async throws(RedisError) -> Verdict?
    ) async throws(RedisError) -> Verdict? {
        var backoff = Backoff()
        var isRepeated = false
        while true {
            do throws(RedisError) {
                let verdict = try await tell()
                return isRepeated && verdict == .gone ? .ok : verdict
            } catch {
                guard error.isTransient, ContinuousClock.now < entry.validUntil, !Task.isCancelled else { throw error }
                isRepeated = true
            }
            try? await Task.sleep(for: backoff.next())  // Cancelled: the next failure is thrown.
        }
    }

    /// Runs the job until it ends or is to stop. Nil: it was stopped, and `entry.reason` says why.
    private func attempt(
        _ entry: RunningJobs.Entry,
        _ parsed: Result<Job, JobError>,
        _ metrics: PipelineMetrics
    ) async -> JobRunner.Result? {
        let claimed = entry.job
        if claimed.isCancelled {
            entry.stop(.batchCancelled)
            return nil
        }
        if claimed.stalls > maximumStalls { return .failed(Worker.poison(claimed)) }
        let job: Job
        do throws(JobError) {
            job = try parsed.get()
        } catch {
            // It was readable when it was admitted: another version of the program did that.
            return .failed(ImagePipeline.Error(.invalidURL, "The job cannot be read: \(error.message)."))
        }
        return await withTaskGroup(of: JobRunner.Result?.self) { group in
            group.addTask { await runner.run(job, metrics: metrics) }
            group.addTask {
                await entry.stop.wait()
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return entry.reason == nil ? first : nil
        }
    }

    /// - Returns: nil where nothing may be said about the job any more.
    private func settle(
        _ entry: RunningJobs.Entry,
        _ parsed: Result<Job, JobError>,
        _ result: JobRunner.Result?,
        _ metrics: PipelineMetrics,
        _ seconds: Double
    ) async throws(RedisError) -> Verdict? {
        let job = entry.job
        // What cannot be read is shown as it stands.
        let source =
            (try? parsed.get().source).map { String($0.prefix(JobOutcome.maximumSource)) }
            ?? String(decoding: job.json.prefix(256), as: UTF8.self)
        var outcome = JobOutcome(
            id: job.id,
            source: source,
            status: .done,
            attempts: job.attempt,
            seconds: seconds,
            worker: worker
        )
        let counters = Worker.counters(metrics.counts, result)
        switch result {
        case .done(let outputs):
            outcome.outputs = outputs
            return try await queue.settle(job, worker: worker, outcome: outcome, dead: nil, counters: counters)
        case .failed(let error):
            let attempts = (try? parsed.get().attempts) ?? 1  // Unreadable today is unreadable tomorrow.
            if let delay = retry.delay(after: job.attempt, of: attempts, error: error) {
                return try await queue.retry(
                    job,
                    worker: worker,
                    after: delay,
                    countsAttempt: error.code != .waitTimedOut,
                    counters: counters
                )
            }
            outcome.status = .failed
            if job.json.count <= JobOutcome.maximumJobSize { outcome.job = try? parsed.get() }
            let code = job.stalls > maximumStalls ? "poison" : error.code.rawValue
            outcome.error = .init(code: code, message: error.message, retryable: error.isRetryable)
            let dead = DeadJob(
                code: code,
                message: error.message,
                attempts: job.attempt,
                worker: worker,
                batch: job.batch.isEmpty ? nil : job.batch,
                job: String(decoding: job.json, as: UTF8.self)
            )
            return try await queue.settle(job, worker: worker, outcome: outcome, dead: dead, counters: counters)
        case nil:
            switch entry.reason {
            case .batchCancelled:
                outcome.status = .cancelled
                return try await queue.settle(job, worker: worker, outcome: outcome, dead: nil, counters: counters)
            case .shutdown:
                try await queue.release([(job.id, job.attempt)], worker: worker, leaves: false)
                return nil
            case .leaseLost, nil: return nil
            }
        }
    }
}
