import Foundation
import MegatonCluster
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
    /// Interval at which it looks for room, and at the beginning for slow hosts.
    private static let roomInterval: Duration = .milliseconds(50)
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
    /// - Parameter canWait: whether jobs can be overtaken if they are pushed later. Those of packs cannot.
    /// - Returns: jobs that go before their turn, for which there is room anyway; none if there is room for others.
    private func waitForRoom(
        _ intake: inout IntakeTarget,
        canWait: Bool
    ) async throws -> [JobBuilder.BuiltJob] {
        var next = ContinuousClock.now + Self.restoreInterval
        while shutdown.level == .none {
            let (submitted, ended) = progress.withLock { ($0.submitted, $0.ended) }
            if submitted - ended <= Self.outstandingLimit {
                if try await hasRoom(&intake, ended: canWait ? ended : .max) { return [] }
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
    private func hasRoom(_ intake: inout IntakeTarget, ended: Int) async throws -> Bool {
        guard cancelsAtTimeout else { return true }
        do {
            let unjudged = readAhead.unjudged
            if intake.asksHosts(at: .now) { readAhead.answer(try await answers(of: unjudged)) }
            // They are asked for at the beginning, and then only if they matter.
            let isAsked = intake.longFetches == 0 || readAhead.hasSlowJobs
            if isAsked, intake.placesAreOld(at: .now, after: Self.restoreInterval) {
                intake.observe(longFetches: try await queue.longFetches(), at: .now)
            }
            // If nothing is left to be known of hosts, there is nothing to wait for.
            if !unjudged.isEmpty, intake.isHeldBack(ended: ended, at: .now) { return false }
            if intake.hasRoom { return true }
            intake.observe(waiting: try await queue.intakeLengths(of: batch), at: .now)
        } catch {
            // The reader of the outcomes meets the same error and reports it.
            guard error.isTransient else { throw error }
        }
        return intake.hasRoom
    }

    /// How far hosts have answered. An error that stays ends no run, as only the order of its jobs depends on it:
    /// workers report a damaged key.
    private func answers(of hosts: [String]) async throws(RedisError) -> [String: JobQueue.HostAnswer] {
        do {
            return try await queue.answers(of: hosts)
        } catch {
            if error.isTransient { throw error }
            return [:]
        }
    }
}

/// Decides how many jobs of a batch wait in its intake, where the order of jobs can no longer be changed: as few as
/// keep the workers busy until the next look.
struct IntakeTarget {
    private var size = Self.smallest
    /// Jobs for which there was room at the last look, and that were not pushed since.
    private var room = Self.smallest
    /// Jobs in an entry of the intake: more than one with packs.
    private var packSize = 1
    private var lastLook: ContinuousClock.Instant?
    /// Looks in a row that found more than half of the size.
    private var fullLooks = 0
    /// Jobs with long fetches that the workers run at a time beside others, as far as that is known.
    private(set) var longFetches = 0
    private var placesSeen: ContinuousClock.Instant?
    /// Jobs that were pushed in their turn, and when the first of them was.
    private var pushed = 0
    private var start: ContinuousClock.Instant?
    private var hostsAsked: ContinuousClock.Instant?

    private static let smallest = 128
    private static let largest = 20_000
    /// Time after the first push in which a few jobs for each place are outstanding: slow hosts are found in it, and
    /// their jobs would wait their turn if they were ready already.
    private static let startTime: Duration = .milliseconds(1200)
    /// Interval at which hosts are asked for later.
    private static let askInterval: Duration = .milliseconds(250)
    /// Looks after which a size is too large: about a second.
    private static let tooManyLooks = 20
    /// Time in which an intake of the right size does not run out. One that ran out later had too few jobs, as of a
    /// list that comes slowly.
    private static let span: Duration = .seconds(1)

    /// Whether there is room for further jobs.
    var hasRoom: Bool { room > 0 }

    /// Whether jobs wait for the end of others, although the intake may be empty.
    ///
    /// - Parameter ended: number of the batch's jobs that have ended.
    func isHeldBack(ended: Int, at now: ContinuousClock.Instant) -> Bool {
        isStarting(at: now) && pushed > startLimit && ended < pushed - startLimit
    }

    /// Whether it is time to ask how far hosts have answered: at each look at the beginning, and now and then later.
    mutating func asksHosts(at now: ContinuousClock.Instant) -> Bool {
        let isSoon = hostsAsked.map { $0.duration(to: now) < Self.askInterval } ?? false
        guard isStarting(at: now) || !isSoon else { return false }
        hostsAsked = now
        return true
    }

    /// Number of jobs to push at once.
    func chunk(at now: ContinuousClock.Instant) -> Int {
        min(size, isStarting(at: now) ? max(Self.smallest, startLimit / 2) : BatchRun.readAtOnce, BatchRun.readAtOnce)
    }

    func isStarting(at now: ContinuousClock.Instant) -> Bool {
        start.map { $0.duration(to: now) < Self.startTime } ?? true
    }

    private var startLimit: Int { max(Self.smallest, longFetches) }

    mutating func push(_ jobs: Int, in entries: Int, at now: ContinuousClock.Instant) {
        if start == nil { start = now }
        room -= jobs
        pushed += jobs
        if entries > 0 { packSize = max(1, jobs / entries) }
    }

    /// Grows if an intake was found empty soon, and shrinks if all stay more than half full.
    ///
    /// - Parameter waiting: entries in the intake of each shard. The emptiest decides: another one may be closed.
    mutating func observe(waiting: [Int], at now: ContinuousClock.Instant) {
        let least = (waiting.min() ?? 0) * waiting.count * packSize
        fullLooks = least > size / 2 ? fullLooks + 1 : 0
        let isLargeEnough = isStarting(at: now) && size >= startLimit
        if least == 0 && !isLargeEnough && lastLook.map({ $0.duration(to: now) < Self.span }) ?? true {
            size = min(2 * size, Self.largest)
        } else if fullLooks >= Self.tooManyLooks {
            (size, fullLooks) = (max(size / 2, Self.smallest), 0)
        }
        (room, lastLook) = (size - least, now)
    }

    func placesAreOld(at now: ContinuousClock.Instant, after age: Duration) -> Bool {
        placesSeen.map { $0.duration(to: now) >= age } ?? true
    }

    mutating func observe(longFetches: Int, at now: ContinuousClock.Instant) {
        (self.longFetches, placesSeen) = (longFetches, now)
    }
}
