internal import Foundation
public import Logging
internal import MegatonPipeline
internal import MegatonRedis
public import NIOCore

/// Claims jobs, does them, and ends them, until it is told to stop.
///
/// Several at once, most of them waiting for an origin; the rendering itself is bounded by the pipeline's threads. What
/// a worker holds when it dies is another's within the lease and a second.
public final class Worker: Sendable {
    public let configuration: Configuration
    /// `host:pid:random`.
    public let name: String
    private let queue: JobQueue
    private let leases: RedisClient
    private let wake: RedisClient
    private let cacheClient: RedisClient?
    private let lock: InFlightLock?
    private let pipeline: ImagePipeline
    private let files: ThreadPool
    private let runner: JobRunner
    private let keeper: LeaseKeeper
    private let running = RunningJobs()
    /// Fired when the worker is idle.
    private let listening = Trigger()
    private let statistics = StatisticsRecorder()
    private let logger: Logger
    private let onHungRender: @Sendable () -> Void

    private static let fileThreads = 2
    private static let statisticsInterval: Duration = .seconds(5)
    /// How long an idle worker sleeps at the most before it looks by itself, seconds: a lost token costs no more.
    private static let idleSeconds = 2

    /// - Parameters:
    ///   - leaseGroup: one event loop that nothing else uses.
    ///   - onHungRender: called when a codec hangs: the process must end, as no thread can be told to stop.
    /// - Throws: where libvips cannot be used.
    public init(
        _ configuration: Configuration,
        name: String,
        group: any EventLoopGroup,
        leaseGroup: any EventLoopGroup,
        logger: Logger,
        onHungRender: @escaping @Sendable () -> Void
    ) throws {
        var logger = logger
        logger[metadataKey: LogKey.worker] = "\(name)"
        self.configuration = configuration
        self.name = name
        self.logger = logger
        self.onHungRender = onHungRender
        let control = RedisClient(configuration.control, role: "control", group: group, logger: logger)
        leases = RedisClient(configuration.control, role: "lease", group: leaseGroup, logger: logger)
        wake = RedisClient(configuration.control, role: "wake", group: group, logger: logger)
        queue = JobQueue(control, keys: configuration.keys)
        let (cacheClient, lock) = Self.sharedCache(configuration, name, group, logger, statistics)
        self.cacheClient = cacheClient
        self.lock = lock
        pipeline = try Self.pipeline(configuration, flights: lock, logger: logger)
        files = ThreadPool(name: "megaton-output", count: Self.fileThreads)
        runner = JobRunner(
            pipeline: pipeline,
            output: FileOutput(access: FileAccess(roots: configuration.roots), threads: files),
            statistics: statistics,
            worker: name
        )
        keeper = LeaseKeeper(
            queue: JobQueue(leases, keys: configuration.keys),
            worker: name,
            info: Self.info(configuration),
            running: running,
            lease: configuration.lease,
            interval: configuration.renewInterval,
            statistics: statistics,
            logger: logger
        )
    }

    /// Connects and checks that the Redis is fit to hold jobs.
    public func start() async throws {
        try await queue.redis.connect()
        try await ControlRedisCheck.run(queue.redis)
    }

    /// Works until the signal, and ends what it began: finished where the drain time allows, else given back.
    public func run(until signal: ShutdownSignal) async {
        logger.info("worker started", metadata: [LogKey.queue: "\(configuration.keys.queue)"])
        await keeper.renew()
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.keeper.run() }
            group.addTask { await self.sweep() }
            group.addTask { await self.flushStatistics() }
            if let lock { group.addTask { await lock.run() } }
            await claim(until: signal)
            group.cancelAll()
        }
        await signOff()
        logger.info("worker stopped")
    }

    // MARK: - Claiming

    private func claim(until signal: ShutdownSignal) async {
        await withTaskGroup(of: Void.self) { watch in
            watch.addTask {
                // Whoever sleeps must notice: the wake connection is of no use after this.
                await signal.wait(for: .drain)
                self.wake.close()
                self.running.changed.fire()
            }
            watch.addTask { await self.listen() }
            await withDiscardingTaskGroup { jobs in
                var failures = Backoff()
                while signal.level == .none && !Task.isCancelled {
                    do {
                        let claimed = try await claimFree()
                        failures.reset()
                        if let suspect = claimed.first(where: { $0.job.stalls > 0 }) {
                            try await giveBack(claimed.filter { $0 !== suspect })
                            await othersEnd(signal)
                            jobs.addTask { await self.work(on: suspect) }
                            await ends(suspect, signal)
                        } else {
                            for entry in claimed { jobs.addTask { await self.work(on: entry) } }
                            if claimed.isEmpty { await idle() }
                        }
                    } catch  where signal.level > .none || Task.isCancelled {
                        break
                    } catch {
                        logger.warning("cannot claim", metadata: [LogKey.error: "\(error)"])
                        try? await Task.sleep(for: failures.next())  // Cancelled: the loop's condition ends it.
                    }
                }
                await drain(signal)
            }
            watch.cancelAll()
        }
    }

    // A job whose worker died or fell silent may be what killed it. It runs alone in its process, so that only the
    // guilty one gathers stalls and not what was in hand beside it.

    private func giveBack(_ entries: [RunningJobs.Entry]) async throws(RedisError) {
        for entry in entries { running.remove(entry) }
        if entries.isEmpty { return }
        try await queue.release(entries.map { ($0.job.id, $0.job.attempt) }, worker: name, leaves: false)
    }

    private func othersEnd(_ signal: ShutdownSignal) async {
        while running.count > 1 && signal.level == .none && !Task.isCancelled { await running.changed.wait() }
    }

    private func ends(_ entry: RunningJobs.Entry, _ signal: ShutdownSignal) async {
        while running.contains(entry) && signal.level == .none && !Task.isCancelled { await running.changed.wait() }
    }

    /// Fills the free places. Empty where there is nothing to do, or no place.
    private func claimFree() async throws(RedisError) -> [RunningJobs.Entry] {
        let free = configuration.concurrency - running.count
        guard free > 0 else { return [] }
        let validUntil = ContinuousClock.now + LeaseKeeper.validity(of: configuration.lease)
        let claimed = try await queue.claim(
            free,
            running: running.count,
            worker: name,
            lease: configuration.lease
        )
        return claimed.map { job in
            let entry = RunningJobs.Entry(job, validUntil: validUntil)
            running.insert(entry)
            return entry
        }
    }

    /// Sleeps until there may be something to do: a token came, or a job of ours ended and with it our share of what is
    /// ready has grown.
    private func idle() async {
        if running.count < configuration.concurrency { listening.fire() }
        await running.changed.wait()
    }

    /// Takes a token whenever the worker is idle, on a connection of its own, so that the end of a job can wake the worker
    /// meanwhile.
    private func listen() async {
        var failures = Backoff()
        while !Task.isCancelled {
            await listening.wait()
            if Task.isCancelled { return }
            do {
                try await wake.send(
                    ["BLPOP", .string(configuration.keys.wake), .int(Self.idleSeconds)],
                    timeout: .seconds(Self.idleSeconds + 2)
                )
                failures.reset()
            } catch {
                // The claim that follows meets the same failure and tells of it.
                try? await Task.sleep(for: failures.next())
            }
            running.changed.fire()
        }
    }

    /// Lets what runs end; what does not in time, or at the second signal, is stopped and goes back.
    private func drain(_ signal: ShutdownSignal) async {
        if running.count > 0 {
            logger.info("draining", metadata: [LogKey.count: "\(running.count)"])
        }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await signal.wait(for: .abort) }
            group.addTask { try? await Task.sleep(for: self.configuration.drainTimeout) }
            group.addTask {
                while self.running.count > 0 && !Task.isCancelled { await self.running.changed.wait() }
            }
            await group.next()
            group.cancelAll()
        }
        for entry in running.all { entry.stop(.shutdown) }
    }

    // MARK: - One job

    private func work(on entry: RunningJobs.Entry) async {
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
        if claimed.stalls > configuration.maximumStalls { return .failed(Self.poison(claimed)) }
        let job: Job
        do throws(JobError) {
            job = try parsed.get()
        } catch {
            // It was readable when it was admitted: another version of the program did that.
            return .failed(ImagePipeline.Error(.invalidURL, "The job cannot be read: \(error.message)."))
        }
        return await withTaskGroup(of: JobRunner.Result?.self) { group in
            group.addTask { await self.runner.run(job, metrics: metrics) }
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
            source: source,
            status: .done,
            attempts: job.attempt,
            seconds: seconds,
            worker: name
        )
        let counters = Self.counters(metrics.counts, result)
        switch result {
        case .done(let outputs):
            outcome.outputs = outputs
            return try await queue.settle(job, worker: name, outcome: outcome, dead: nil, counters: counters)
        case .failed(let error):
            let attempts = (try? parsed.get().attempts) ?? 1  // Unreadable today is unreadable tomorrow.
            if let delay = configuration.retry.delay(after: job.attempt, of: attempts, error: error) {
                return try await queue.retry(
                    job,
                    worker: name,
                    after: delay,
                    countsAttempt: error.code != .waitTimedOut,
                    counters: counters
                )
            }
            outcome.status = .failed
            let code = job.stalls > configuration.maximumStalls ? "poison" : error.code.rawValue
            outcome.error = .init(code: code, message: error.message, retryable: error.isRetryable)
            let dead = DeadJob(
                code: code,
                message: error.message,
                attempts: job.attempt,
                worker: name,
                batch: job.batch.isEmpty ? nil : job.batch,
                job: String(decoding: job.json, as: UTF8.self)
            )
            return try await queue.settle(job, worker: name, outcome: outcome, dead: dead, counters: counters)
        case nil:
            switch entry.reason {
            case .batchCancelled:
                outcome.status = .cancelled
                return try await queue.settle(job, worker: name, outcome: outcome, dead: nil, counters: counters)
            case .shutdown:
                try await queue.release([(job.id, job.attempt)], worker: name, leaves: false)
                return nil
            case .leaseLost, nil: return nil
            }
        }
    }

    // MARK: - Beside the jobs

    private func sweep() async {
        while !Task.isCancelled {
            do {
                if let swept = try await queue.sweep(), swept > 0 {
                    logger.warning("leases ran out; the jobs are ready again", metadata: [LogKey.count: "\(swept)"])
                }
            } catch {
                logger.debug("cannot sweep", metadata: [LogKey.error: "\(error)"])
            }
            if let longest = pipeline.longestRunningRender, longest > configuration.renderLimits.time * 3 {
                logger.critical("a render hangs in its codec; the process ends, and its jobs go to others")
                onHungRender()
            }
            try? await Task.sleep(for: configuration.sweepInterval)  // Cancelled: the loop's condition ends it.
        }
    }

    private func flushStatistics() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: Self.statisticsInterval)  // Cancelled: flushed once more below.
            do {
                try await statistics.flush(to: queue)
            } catch {
                logger.debug("statistics were not added", metadata: [LogKey.error: "\(error)"])
            }
        }
    }

    private func signOff() async {
        do {
            try await statistics.flush(to: queue)
            try await queue.release([], worker: name, leaves: true)
        } catch {
            logger.warning("the worker could not sign off", metadata: [LogKey.error: "\(error)"])
        }
        queue.redis.close()
        leases.close()
        wake.close()
        cacheClient?.close()
        files.stop()
    }
}
