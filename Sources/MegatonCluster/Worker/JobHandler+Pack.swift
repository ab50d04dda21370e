internal import Foundation
internal import Logging
internal import MegatonCore
internal import MegatonPipeline
internal import MegatonRedis

/// Packs: one claim, one lease, an outcome for each source.
///
/// A pack uses one place of its worker, and of the free ones as many as it has sources, so that few packs fill an idle
/// worker, and a pack among many jobs holds one fetch at a time.
extension JobHandler {
    /// The end of an attempt at one source. A class, as it passes through several closures, and a job is large.
    private final class SourceEnd: Sendable {
        let job: Job
        let result: JobRunner.Result
        let metrics: PipelineMetrics
        let seconds: Double

        init(_ job: Job, _ result: JobRunner.Result, _ metrics: PipelineMetrics, seconds: Double) {
            (self.job, self.result, self.metrics, self.seconds) = (job, result, metrics, seconds)
        }
    }

    private enum Event: Sendable {
        case ended(SourceEnd)
        /// Sources that have ended are to be settled although others still run.
        case settlementDue
        case stopped
    }

    /// Runs the sources of a pack and settles them, or leaves them to the worker that has the lease now.
    func handlePack(_ active: ActiveJob) async {
        do {
            guard let pack = try? Pack(json: active.json) else {
                try await failUnreadable(active)
                return
            }
            var run = PackRun(pack, of: active, settledEach: packInterval)
            if active.isCancelled { active.stop(.batchCancelled) }
            if active.stalls > 0 {
                // Its worker has died: a source that kills again must be alone with its job. Further stalls of the pack
                // came from no source, as none of them has run since.
                for source in pack.sources {
                    run.split(.init(job: pack.job(source), stalls: 1, free: active.free + 1, start: .due))
                }
            } else if active.reason == nil {
                let jobs = pack.sources.map(pack.job)
                let suspected = try await duringLease(active) { () throws(RedisError) in
                    try await queue.suspected(jobs)
                }
                for job in jobs where suspected.contains(job.id ?? "") {
                    run.split(.init(job: job, free: active.free + 1))
                }
                try await runSources(&run)
            }
            running.markSettling(active)
            if active.reason == .leaseLost { return }
            if active.reason == .batchCancelled {
                for source in run.undecided { run.end(outcome(of: pack.job(source), in: active, status: .cancelled)) }
            }
            _ = try await settle(&run, isLast: true)
        } catch {
            logger.warning(
                "the sources of a pack could not be settled; they run again after its lease",
                metadata: [LogKey.jobID: "\(active.id)", LogKey.error: "\(error)"]
            )
        }
    }

    /// Runs sources until all have ended, the pack is stopped, or its host takes no further request.
    private func runSources(_ run: inout PackRun) async throws(RedisError) {
        var current = run
        current.isGivenUp = current.host.map { givenUpHosts.contains($0, at: .now) } ?? false
        let failure = await withTaskGroup(of: Event.self) { group -> RedisError? in
            let (active, stop) = (current.active, AsyncSignal())
            active.onStop { stop.signal() }
            defer { active.onStop(nil) }
            group.addTask {
                await stop.wait()
                return .stopped
            }
            var (started, hasTimer) = (0, false)
            // The first source uses the place of the pack.
            defer { for _ in 0..<max(0, started - 1) { running.takeBack() } }
            while true {
                while current.mayStart, !running.isDraining {
                    if started > 0 && (current.isGivenUp || !running.lend(of: places)) { break }
                    guard let source = current.startNext() else {
                        if started > 0 { running.takeBack() }
                        break
                    }
                    started += 1
                    let job = current.pack.job(source)
                    group.addTask { .ended(await self.run(job, of: active)) }
                }
                guard started > 0, let event = await group.next() else { break }
                switch event {
                case .stopped: group.cancelAll()
                case .settlementDue:
                    hasTimer = false
                    if active.reason != nil || !current.hasDecisions { continue }
                    do throws(RedisError) {
                        if try await !settle(&current, isLast: false) { active.stop(.leaseLost) }
                    } catch {
                        active.stop(.leaseLost)
                        group.cancelAll()
                        return error
                    }
                case .ended(let end):
                    started -= 1
                    if started > 0 { running.takeBack() }
                    if active.reason != nil { continue }
                    do throws(RedisError) {
                        try await decide(end, &current)
                        if !hasTimer, current.hasDecisions, started > 0 {
                            hasTimer = true
                            // Cancelled with the group.
                            group.addTask {
                                try? await Task.sleep(for: self.packInterval)
                                return .settlementDue
                            }
                        }
                        if running.activeCountOfWorker >= places, !running.isDraining,
                            current.checksOthers(at: .now)
                        {
                            await makeRoom(&current)
                        }
                        if !current.wantsSettlement(at: .now) || current.undecided.isEmpty { continue }
                        if try await !settle(&current, isLast: false) { active.stop(.leaseLost) }
                    } catch {
                        active.stop(.leaseLost)
                        group.cancelAll()
                        return error
                    }
                }
            }
            group.cancelAll()
            return nil
        }
        run = current
        if let failure { throw failure }
    }

    /// A pack has one place, as other jobs have the rest of this worker. If jobs of a higher priority wait for it, or
    /// of its own for long, the pack goes behind them. If only jobs of a lower priority wait, or another worker is
    /// idle, sources become jobs of their own, which run side by side: otherwise they would run one after the other,
    /// also on the smallest worker of a fleet.
    private func makeRoom(_ run: inout PackRun) async {
        let priority = run.pack.shared.priority
        do {
            guard let own = try await queue.waitingJobs(beside: priority) else { return }
            switch max(own, own == .higher ? own : await running.othersWaiting(beside: priority)) {
            case .higher: run.isYielding = true
            case .equal: run.isYielding = run.hasHadTurn(at: .now)
            case .lower: if !run.isGivenUp { run.share() }
            case .none: if !run.isGivenUp, try await queue.wakeIdleWorker() { run.share() }
            }
        } catch {
            logger.debug("a pack cannot check for other jobs", metadata: [LogKey.error: "\(error)"])
        }
    }

    private func run(_ job: Job, of active: ActiveJob) async -> SourceEnd {
        guard let scope = spans.scope(continuing: job.traceparent) else {
            return await run(job, of: active, PipelineMetrics(spans: nil))
        }
        return await scope.run(.job) { () async -> SourceEnd in
            // Below the span that has just begun.
            await run(job, of: active, PipelineMetrics(spans: spans.current()))
        } facts: { (end: Result<SourceEnd, Never>) in
            facts(ofSource: job, in: active, end.get().result)
        }
    }

    private func run(_ job: Job, of active: ActiveJob, _ metrics: PipelineMetrics) async -> SourceEnd {
        let start = ContinuousClock.now
        let age = maximumFailureAge(for: active, job: job)
        let result = await runner.run(job, maximumFailureAge: age, metrics: metrics)
        return SourceEnd(job, result, metrics, seconds: start.duration(to: .now).inSeconds)
    }

    /// Decides what becomes of a source: it has ended, is split off for another attempt, or waits with the others for
    /// the host.
    private func decide(_ end: SourceEnd, _ run: inout PackRun) async throws(RedisError) {
        let active = run.active
        metrics.count(end.metrics, seconds: end.seconds)
        let counts = end.metrics.counts
        run.counters.add(counts, end.result)
        var outcome = outcome(of: end.job, in: active, status: .done)
        outcome.seconds = end.seconds
        outcome.times = JobOutcome.Times(seconds: end.seconds, end.metrics.times)
        let notes = end.metrics.notes
        outcome.notes = notes.isEmpty ? nil : notes
        outcome.facts = end.metrics.facts
        switch end.result {
        case .done(let outputs):
            // The host answers again.
            if counts.originFetches > 0 { run.isGivenUp = false }
            outcome.outputs = outputs
            sourceFailures.forget(end.job.source)
            run.end(outcome)
        case .failed(let error):
            if let turn = error.hostTurn, !turn.isGivenUp, !retry.asksForTooLong(error) {
                didHold(turn.host)
                metrics.countHold()
                if turn.host == end.job.host {
                    run.refuse(turn, at: .now)
                } else {
                    // A redirect: the other sources need not wait for that host.
                    run.split(.init(job: end.job, free: active.free + 1, start: .after(.seconds(turn.wait))))
                }
                return
            }
            let isGivenUp = error.hostTurn?.isGivenUp == true
            if isGivenUp, error.hostTurn?.host == run.host { run.isGivenUp = true }
            if let turn = error.hostTurn, isGivenUp, givenUpHosts.isNews(turn.host, at: .now) {
                try await duringLease(active) { () throws(RedisError) in try await queue.giveUp(turn.host) }
            }
            if !isGivenUp,
                let delay = retry.delay(
                    after: active.counted,
                    of: end.job.attempts,
                    error: error,
                    free: active.free
                )
            {
                let isFree = retry.isFree(error, free: active.free)
                // The outputs of the other sources would fail too.
                if isFree && error.isOfStorage { run.isYielding = true }
                run.split(.init(job: end.job, free: active.free + (isFree ? 1 : 0), start: .after(delay)))
                if !isFree { sourceFailures.note(error, of: end.job.source) }
                metrics.countRetry(after: error.code.rawValue)
                log.retry(active, source: end.job.source, after: error, in: delay)
                return
            }
            outcome.status = .failed
            outcome.error = .init(
                code: error.code.rawValue,
                message: message(of: error, for: end.job.source),
                retryable: error.isRetryable
            )
            let json = end.job.json()
            if json.count <= JobOutcome.maximumJobSize { outcome.job = end.job }
            run.end(outcome, dead: deadLetter(outcome, of: active, json: json))
        }
    }

    private func outcome(of job: Job, in active: ActiveJob, status: JobOutcome.Status) -> JobOutcome {
        JobOutcome(
            id: job.id,
            source: job.source.truncated(to: JobOutcome.maximumSource),
            status: status,
            attempts: active.counted,
            worker: worker,
            labels: job.labels
        )
    }

    private func deadLetter(_ outcome: JobOutcome, of active: ActiveJob, json: Data) -> DeadLetter.Content {
        DeadLetter.Content(
            code: outcome.error?.code ?? "",
            message: outcome.error?.message ?? "",
            attempts: outcome.attempts,
            worker: worker,
            batch: active.batch.isEmpty ? nil : active.batch,
            labels: outcome.labels,
            job: String(decoding: json, as: UTF8.self)
        )
    }

    /// Settles what was decided, in as many calls as it needs.
    ///
    /// - Returns: false if the pack is no longer this worker's.
    private func settle(_ run: inout PackRun, isLast: Bool) async throws(RedisError) -> Bool {
        let active = run.active
        repeat {
            let (settlement, known) = (run.nextSettlement(isLast: isLast, at: .now), run.pack.sources.count)
            let reply = try await untilAcknowledged(active) { () throws(RedisError) in
                ("pack", try await queue.settle(settlement, of: active, known: known, worker: worker))
            }
            if let reply { await note(reply, of: active) }
            guard let reply, reply.result.wasApplied else { return false }
            report(settlement.ends, of: active)
            run.settled(settlement, at: .now)
        } while run.hasDecisions
        return true
    }

    private func report(_ ends: [PackSettlement.End], of active: ActiveJob) {
        for end in ends {
            metrics.count(end.reported)
            statistics.add(thumbnailOf: end.reported, batch: active.batch)
            log.end(end.reported, batch: active.batch)
        }
    }

    /// Ends a pack that this worker cannot read: another version of the program admitted it, or its JSON is damaged.
    ///
    /// Each source that the JSON still names has an outcome and a dead letter. If it names none, the pack has one of
    /// each: its batch counts all sources, and readers of the outcomes report the others as missing.
    private func failUnreadable(_ active: ActiveJob) async throws(RedisError) {
        let message = "The pack cannot be read."
        running.markSettling(active)
        let sources = Pack.refused(active.json, id: active.id, message: message, wasValidated: true)
        if let sources, sources.count == active.packSize {
            var settlement = PackSettlement(ends: sources.map { failed($0, in: active) })
            if settlement.ends.reduce(0, { $0 + $1.size }) > PackRun.callBytes {
                // One call must end all of them, as a smaller pack cannot be written without reading this one.
                settlement.ends = sources.map { failed($0, in: active, keeping: JobValidator.excerpt) }
            }
            settlement.reply = JobIdentity(active.json).reply
            let reply = try await untilAcknowledged(active) { () throws(RedisError) in
                ("pack", try await queue.settle(settlement, of: active, known: sources.count, worker: worker))
            }
            if let reply { await note(reply, of: active) }
            if reply?.result.wasApplied == true { report(settlement.ends, of: active) }
            return
        }
        var outcome = JobOutcome(
            id: active.id,
            source: String(decoding: active.json.prefix(256), as: UTF8.self),
            status: .failed,
            attempts: active.counted,
            worker: worker
        )
        outcome.error = .init(code: "invalid_job", message: message, retryable: false)
        let dead = deadLetter(outcome, of: active, json: active.json)
        let completion = JobCompletion(
            job: active,
            outcome: outcome,
            dead: dead,
            replyingTo: JobIdentity(active.json).reply
        )
        _ = try await untilAcknowledged(active) { () throws(RedisError) in
            (outcome.status.rawValue, try await completions.report(completion))
        }
    }

    /// The end of a source whose pack cannot be read.
    ///
    /// - Parameter excerpt: bytes of its JSON that the dead letter keeps; nil for all.
    private func failed(
        _ source: Pack.Invalid,
        in active: ActiveJob,
        keeping excerpt: Int? = nil
    ) -> PackSettlement.End {
        let identity = JobIdentity(source.json)
        var outcome = JobOutcome(
            id: identity.id ?? source.id,
            source: identity.source ?? String(decoding: source.json.prefix(256), as: UTF8.self),
            status: .failed,
            attempts: active.counted,
            worker: worker,
            labels: identity.labels
        )
        let isCut = excerpt.map { source.json.count > $0 } ?? false
        let remark = isCut ? " Its dead letter has only the beginning of the job: submit it again." : ""
        outcome.error = .init(code: "invalid_job", message: source.message + remark, retryable: false)
        let dead = deadLetter(outcome, of: active, json: excerpt.map { source.json.prefix($0) } ?? source.json)
        return .init(id: outcome.id ?? source.id, outcome: outcome, dead: dead)
    }
}
