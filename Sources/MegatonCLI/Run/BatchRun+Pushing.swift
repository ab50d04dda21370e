import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonRedis
import Synchronization

/// How the jobs of a batch come into the queue.
extension BatchRun {
    /// Maximum number of jobs that are submitted and have not ended.
    static let outstandingLimit = 20_000
    static let readAtOnce = 500
    /// Interval at which a submission that waits looks whether Redis has lost jobs, and how many places the workers
    /// have.
    private static let restoreInterval: Duration = .seconds(2)
    /// Interval at which it looks for room.
    private static let roomInterval: Duration = .milliseconds(50)
    /// The same at the beginning, when it looks for slow hosts, too.
    private static let startInterval: Duration = .milliseconds(20)

    /// Pushes all jobs. Returns at the first signal, which also ends a wait for a Redis that is full or unreachable.
    ///
    /// - Parameter unbounded: whether no one reads outcomes, so that all jobs are pushed at once.
    func submit(unbounded: Bool = false) async throws {
        do {
            try await pushAll(unbounded: unbounded)
        } catch let error as RedisError {
            guard shutdown.level > .none && error.isTransient else { throw error }
        }
    }

    private func pushAll(unbounded: Bool) async throws {
        let reader = try ReadingThread(selection, builder, remote)
        defer { reader.stop() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await self.read(reader) }
            group.addTask { try await self.push(unbounded: unbounded) }
            // The error of one cancels the other.
            while try await group.next() != nil {}
        }
        // An interrupted batch stays open, as not all of its jobs were submitted.
        guard shutdown.level == .none else { return }
        progress.withLock { $0.wasTried = true }
        try await submitter.close()
        progress.withLock { progress in
            progress.hasBegun = true
            progress.isComplete = true
            progress.leftOut = reader.leftOut
            progress.notRetried = reader.notRetried
        }
    }

    private func read(_ reader: ReadingThread) async throws {
        defer { readAhead.finish() }
        while shutdown.level == .none, try await readAhead.waitForRoom(),
            let jobs = try await reader.next(Self.readAtOnce)
        {
            readAhead.add(jobs)
        }
    }

    private func push(unbounded: Bool) async throws {
        defer { readAhead.stop() }
        // A batch that compares its jobs has packs split anyway.
        var packs = PackBuilder(size: options.deduplicate ? 0 : options.pack)
        var intake = IntakeTarget()
        while shutdown.level == .none, try await readAhead.waitForJobs() {
            let urgent = unbounded ? [] : try await waitForRoom(&intake, canWait: !packs.isForming)
            if shutdown.level > .none { return }
            // As much as the intake is to have, even if there is room for less: a call costs as much for one job as for
            // many. Packs have more to choose from in a full chunk.
            let isBounded = cancelsAtTimeout && !unbounded && !packs.isForming
            let chunk = isBounded ? intake.chunk(at: .now) : Self.readAtOnce
            let (early, due) = urgent.isEmpty ? readAhead.take(chunk, longFetches: intake.longFetches) : (urgent, [])
            let jobs = early + due
            if jobs.contains(where: { $0.job?.priority == .high }) { hasHighJobs.store(true, ordering: .relaxed) }
            progress.withLock { $0.wasTried = true }
            // With `--retry-failed`, the operator states that these jobs may run again.
            if options.retryFailed != nil { try await queue.forgetDeaths(of: jobs.compactMap(\.job)) }
            // A pack has one place, and so would all jobs of a slow host in it.
            let packed = packs.pack(due, queue.layout)
            // Each goes before all others, so that the last one is the first. In a batch that compares its jobs they
            // keep their order, as the first of two equal ones is done.
            for job in options.deduplicate ? early : early.reversed() {
                try await submitter.add(
                    PackBuilder.single(packs.hasFormed ? job : raised(job)),
                    isUrgent: !options.deduplicate
                )
            }
            for job in packed { try await submitter.add(job) }
            if ledger != nil { ids.withLock { $0.add(jobs.map { $0.job?.id }) } }
            // Flushed at the end of a chunk, so that a few inputs start at once and many are pushed in large chunks.
            try await submitter.flush()
            began(with: await submitter.submitted)
            intake.push(due.count, in: packed.count, at: .now)
        }
    }

    /// An early job goes before the others of the batch that are ready: these last for two seconds. In a queue that is
    /// not the batch's alone it would go before the jobs of others, too, and packs would make room for it.
    private func raised(_ built: JobBuilder.BuiltJob) -> JobBuilder.BuiltJob {
        guard ownsQueue, !hasHighJobs.load(ordering: .relaxed), case .job(var job, let hasUniqueID) = built,
            job.priority == .normal
        else { return built }
        job.priority = .high
        return .job(job, hasUniqueID: hasUniqueID)
    }

    /// Restores the priority of raised jobs in the lines of those that failed: a retry may be in a queue that others
    /// use.
    func restored(_ lines: [Data], _ fields: [OutcomeFields?]) -> [Data] {
        guard ownsQueue, !hasHighJobs.load(ordering: .relaxed) else { return lines }
        return zip(lines, fields).map { line, fields in
            guard fields?.status == .failed, var outcome = try? JobOutcome(json: line), outcome.job?.priority == .high
            else { return line }
            outcome.job?.priority = .normal
            return outcome.json()
        }
    }

    private func began(with submitted: Int) {
        let isNew = progress.withLock { progress in
            progress.submitted = submitted
            defer { progress.hasBegun = submitted > 0 }
            return !progress.hasBegun && submitted > 0
        }
        if isNew { changed.signal() }
    }

    /// Waits until there is room for further jobs, at most until a signal. For usual jobs a look now and then would be
    /// enough, as the admission window has jobs for two more seconds; those of slow hosts should begin soon.
    ///
    /// - Parameter canWait: whether jobs may be held back at the beginning. Those of packs are not.
    /// - Returns: jobs that go before their turn, for which there is room anyway; none if there is room for others.
    private func waitForRoom(
        _ intake: inout IntakeTarget,
        canWait: Bool
    ) async throws -> [JobBuilder.BuiltJob] {
        var next = ContinuousClock.now + Self.restoreInterval
        while shutdown.level == .none {
            let (submitted, ended) = progress.withLock { ($0.submitted, $0.ended) }
            if submitted - ended <= Self.outstandingLimit {
                if try await hasRoom(&intake, ended: canWait ? ended : nil) { return [] }
                let early = readAhead.takeEarly(Self.readAtOnce, longFetches: intake.longFetches)
                if !early.isEmpty { return early }
            }
            try await Task.sleep(for: intake.isStarting(at: .now) ? Self.startInterval : Self.roomInterval)
            // Otherwise lost jobs would be awaited for ever.
            if ContinuousClock.now >= next {
                do {
                    try await submitter.restore()
                } catch {
                    guard error.isTransient else { throw error }
                }
                next = .now + Self.restoreInterval
            }
        }
        return []
    }

    /// Whether the intake has room. That of a batch which goes on without its command always has: jobs that are not in
    /// the queue would be missing then.
    ///
    /// - Parameter ended: number of the batch's jobs that have ended; nil if no job is held back.
    private func hasRoom(_ intake: inout IntakeTarget, ended: Int?) async throws -> Bool {
        guard cancelsAtTimeout else { return true }
        do {
            if intake.asksHosts(at: .now) { try await askHosts(&intake) }
            // They are asked for until workers have come, and later only if they matter.
            if intake.placesAreOld(at: .now), intake.needsPlaces(at: .now) || readAhead.hasSlowJobs {
                intake.observe(longFetches: try await queue.longFetches(), at: .now)
            }
            // If nothing is left to be known of hosts, there is nothing to wait for.
            if let ended, intake.isHeldBack(ended: ended - readAhead.endedEarly, at: .now), readAhead.mayFindSlowHosts {
                return false
            }
            if intake.hasRoom { return true }
            intake.observe(waiting: try await queue.intakeLengths(of: batch), at: .now)
        } catch {
            // The reader of the outcomes meets the same error and reports it.
            guard error.isTransient else { throw error }
        }
        return intake.hasRoom
    }

    /// Asks how far hosts have answered. An error that stays ends no run, as only the order of its jobs depends on it.
    private func askHosts(_ intake: inout IntakeTarget) async throws(RedisError) {
        do {
            readAhead.answer(try await queue.answers(of: readAhead.unjudged))
        } catch {
            if error.isTransient { throw error }
            intake.asksNoHosts()
            Terminal.note(
                "megaton: slow hosts are found later than usual, as Redis does not show which hosts have answered: "
                    + "\(error). Correct the rights of the user of Redis, see docs/credentials.md, or delete the hash "
                    + "`rate` of the queue if it is of another type."
            )
        }
    }
}
