package import Foundation
package import MegatonRedis

/// Pushes the jobs of one batch in chunks, each job exactly once however often a connection breaks.
///
/// Jobs are numbered in the order in which they are added, and Redis counts each once, by its number. Several tasks may
/// add jobs, and push them: there is one push at a time.
package actor BatchSubmitter {
    private let queue: JobQueue
    private let batch: String
    private let policy: BatchPolicy
    private let retryTime: Duration
    private let stopsWaiting: @Sendable () -> Bool
    private let onDelay: @Sendable (RedisError) -> Void
    private let onRestore: @Sendable (Int) -> Void
    /// Distinguishes this batch from one of the same name by another submitter.
    private let submitter = String(UInt64.random(in: .min ... .max), radix: 16)
    /// The last jobs that Redis has acknowledged: a failover may lose them.
    private var kept: [PushedJob] = []
    private let keptLimit: Int
    private var keptBytes = 0
    private let shards: Int
    private let owner: String?
    /// Jobs that Redis has not acknowledged.
    private var pending: [PushedJob] = []
    private var pendingBytes = 0
    /// Number of the first pending job, counted from 0; a pack counts as its sources.
    private var first = 0
    /// Whether all ids so far were made for this batch.
    private var idsAreUnique = true
    /// Whether a push was sent, perhaps in vain: before the first one, Redis cannot have a batch of this submitter.
    private var wasTried = false
    private var isPushing = false
    /// Tasks that wait for the end of a push.
    private var waiters: [CheckedContinuation<RedisError?, Never>] = []
    /// Whether no job can be added any more.
    private var isClosing = false
    /// Whether Redis has closed the batch.
    private var isClosed = false
    /// Number of jobs that Redis has acknowledged.
    package private(set) var submitted = 0
    private var wasClosedByOthers = false
    /// Whether the batch accepts no more jobs, because it was cancelled or another process has closed it.
    private var isRefused = false

    /// Maximum number of jobs, and of bytes, in one push.
    private static let chunk = 500
    private static let chunkBytes = 1024 * 1024
    /// Maximum number of bytes of acknowledged jobs that are kept.
    package static let keptBytes = 64 * 1024 * 1024
    /// Time for which a push is retried while Redis is unreachable or full, unless the caller chooses another.
    package static let retryTime: Duration = .seconds(60)

    /// Creates a submitter; nothing is sent yet.
    ///
    /// - Parameters:
    ///   - policy: options of the batch.
    ///   - keptLimit: maximum number of bytes of acknowledged jobs that are kept, to push them again if Redis loses
    ///     them.
    ///   - owner: the owner of the batch; nil if it is the operator.
    ///   - shards: number of shards of the queue. With several, the batch begins in all (`begin`) before its first job.
    ///   - retryTime: time for which a push is retried while Redis is unreachable or full.
    ///   - stopsWaiting: whether a push that fails is not retried any more, as the process is to end.
    ///   - onDelay: called once for each push that has to wait because Redis is unreachable or full.
    ///   - onRestore: called with the number of jobs that Redis has lost and that will be pushed again.
    package init(
        queue: JobQueue,
        batch: String,
        policy: BatchPolicy = BatchPolicy(),
        keptLimit: Int = keptBytes,
        owner: String? = nil,
        shards: Int = 1,
        retryTime: Duration = BatchSubmitter.retryTime,
        stopsWaiting: @escaping @Sendable () -> Bool = { false },
        onDelay: @escaping @Sendable (RedisError) -> Void = { _ in },
        onRestore: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.owner = owner
        self.shards = shards
        self.retryTime = retryTime
        self.stopsWaiting = stopsWaiting
        self.onDelay = onDelay
        self.onRestore = onRestore
        self.keptLimit = keptLimit
        self.queue = queue
        self.batch = batch
        self.policy = policy
    }

    /// Adds a job; it is pushed when a chunk is full, or at `flush`.
    ///
    /// - Parameters:
    ///   - sources: number of its sources, which is 1 unless it is a pack.
    ///   - hasUniqueID: whether the caller generated the id and uses it for no other job of the batch.
    ///     Otherwise the batch remembers the ids it has seen, so that a repeated id is processed once.
    ///   - isUrgent: whether it goes before all jobs of the batch that the coordinator has not read yet.
    /// - Throws: `.closed` after `close`.
    package func add(
        _ json: Data,
        sources: Int = 1,
        hasUniqueID: Bool = false,
        isUrgent: Bool = false
    ) async throws(RedisError) {
        if isClosing {
            throw RedisError(.closed, "The batch \(batch) has been closed by its submitter: no job can be added.")
        }
        if !hasUniqueID { idsAreUnique = false }
        pending.append(PushedJob(json: json, sources: sources, isUrgent: isUrgent))
        pendingBytes += json.count
        if pending.count >= Self.chunk || pendingBytes >= Self.chunkBytes { try await flush() }
    }

    /// Number of the first job that was not added yet.
    private var endOfPending: Int { pending.reduce(first) { $0 + $1.sources } }

    /// Makes the batch known to Redis, before its first job.
    ///
    /// - Throws: `.batchExists` if it is another submitter's.
    func begin() async throws(RedisError) {
        try await push(before: first, begins: true)
    }

    /// Pushes the jobs that were added.
    package func flush() async throws(RedisError) {
        try await push(before: endOfPending)
    }

    /// Pushes the remaining jobs and closes the batch, so that it can end. No job can be added any more.
    package func close() async throws(RedisError) {
        isClosing = true
        try await push(before: endOfPending, isLast: true)
    }

    /// Pushes jobs again that Redis had acknowledged and lost, because it has returned to an earlier state: a replica
    /// that lagged took over, or it restarted from an older file.
    ///
    /// A batch that has ended and was forgotten cannot be distinguished from a lost one: its jobs are pushed again, if
    /// they are still kept. That happens to a submitter that sleeps for longer than the retention of batches, and costs
    /// lookups of finished work in the cache.
    ///
    /// - Throws: `.jobsLost` if it has lost more jobs than this submitter keeps.
    package func restore() async throws(RedisError) {
        guard submitted > 0 || isClosing, !isRefused else { return }
        // The reply need not include what another task's push adds meanwhile.
        let (acknowledged, wasClosed) = (submitted, isClosed)
        let counters = BatchCounters(try await queue.batch(batch))
        let hasAll = counters["submitted"] >= acknowledged && (!wasClosed || counters["closed"] == 1)
        if hasAll && isClosed == isClosing { return }
        if !hasAll {
            try goBack(to: counters["submitted"])
            isClosed = false
        }
        // An earlier call may have failed before it closed the batch again.
        try await push(before: endOfPending, isLast: isClosing)
    }

    /// Cancels what was pushed, as a batch that stays open never ends. A batch of the same name by another submitter is
    /// left alone, and so is a batch that another process has closed: it ends by itself.
    ///
    /// - Returns: whether the batch was cancelled; false if Redis has none of this submitter.
    @discardableResult
    package func cancel() async throws(RedisError) -> Bool {
        guard wasTried, !wasClosedByOthers else { return false }
        return try await queue.cancel(batch: batch, of: submitter)
    }

    /// Pushes the jobs with smaller numbers than `end` in chunks, one push at a time: another task's push is awaited,
    /// and has left nothing to do if it included these jobs.
    ///
    /// - Parameters:
    ///   - isLast: whether the last chunk closes the batch.
    ///   - begins: whether to push at least one chunk, perhaps without jobs.
    private func push(before end: Int, isLast: Bool = false, begins: Bool = false) async throws(RedisError) {
        while isPushing {
            if let error = await withCheckedContinuation({ waiters.append($0) }) { throw error }
        }
        isPushing = true
        do throws(RedisError) {
            if begins { try await pushChunk(isLast: false) }
            while first < end || isLast && !isClosed { try await pushChunk(isLast: isLast) }
            endPush(nil)
        } catch {
            // The end of a cancelled task is no failure of the others.
            endPush(Task.isCancelled ? nil : error)
            throw error
        }
    }

    /// Lets the waiting tasks continue; with an error, their pushes fail too.
    private func endPush(_ error: RedisError?) {
        isPushing = false
        let waiting = waiters
        waiters = []
        for waiter in waiting { waiter.resume(returning: error) }
    }

    /// Number of pending jobs for the next push: at least one if there is one.
    private var chunkCount: Int {
        var bytes = 0
        let count = pending.prefix(Self.chunk).prefix { job in
            defer { bytes += job.json.count }
            return bytes == 0 || bytes + job.json.count <= Self.chunkBytes
        }.count
        return count
    }

    /// Pushes the first of the pending jobs, with retries.
    private func pushChunk(isLast: Bool) async throws(RedisError) {
        let deadline = ContinuousClock.now + retryTime
        var backoff = Backoff()
        var isDelayed = false
        wasTried = true
        try await retrying(until: ContinuousClock.now >= deadline || stopsWaiting()) { () throws(RedisError) in
            try await pushChunkOnce(isLast: isLast)
        } pauseAfter: { error in
            guard error.isTransient else { return nil }
            if !isDelayed { onDelay(error) }
            isDelayed = true
            return backoff.next(after: error)
        }
    }

    /// Pushes the first of the pending jobs. If Redis has lost jobs before them, those become pending too, and nothing
    /// is pushed.
    ///
    /// - Parameter isLast: whether the last of the pending jobs is the last of the batch.
    private func pushChunkOnce(isLast: Bool) async throws(RedisError) {
        // The number of the first job makes a repeated push harmless. Other tasks may add jobs, or go back, before
        // the reply.
        let jobs = pending.prefix(chunkCount)
        let (first, end) = (first, jobs.reduce(first) { $0 + $1.sources })
        let closes = isLast && jobs.count == pending.count
        do throws(RedisError) {
            let reply = try await queue.push(
                jobs,
                to: batch,
                first: first,
                isLast: closes,
                policy: policy,
                idsAreUnique: idsAreUnique,
                submitter: submitter,
                owner: owner,
                // The push that begins the batch has no jobs: not all shards have it yet.
                shards: shards > 1 && (closes || !jobs.isEmpty) ? shards : nil
            )
            // A cancelled batch has accepted fewer, and accepts no more.
            if reply < end { isRefused = true }
            submitted = max(submitted, reply)
            removePending(before: end)
            if closes { isClosed = true }
        } catch {
            switch error.code {
            case .batchBehind: try goBack(to: BatchCounters(try await queue.batch(batch))["submitted"])
            case .batchClosed:
                (wasClosedByOthers, isRefused) = (true, true)
                throw RedisError(
                    .batchClosed,
                    "Another process has closed the batch \(batch), so that it takes no more jobs. The "
                        + "\(submitted) that Redis has continue; submit the others under another name."
                )
            default: throw error
            }
        }
    }

    /// Makes acknowledged jobs pending again.
    private func goBack(to number: Int) throws(RedisError) {
        // Another push has gone back already.
        guard number < first else { return }
        var (count, sources) = (0, 0)
        for job in kept.reversed() where sources < first - number {
            count += 1
            sources += job.sources
        }
        guard sources == first - number else {
            throw RedisError(
                .jobsLost,
                "Redis has lost jobs: it acknowledged \(submitted) of the batch \(batch) and has \(number), and only "
                    + "the last \(sources) can be pushed again. It ended before they were on its disk, or a replica "
                    + "without them took over. Submit again: finished work is in the cache."
            )
        }
        let lost = kept.suffix(count)
        let bytes = lost.reduce(0) { $0 + $1.json.count }
        pending = lost + pending
        pendingBytes += bytes
        kept.removeLast(count)
        keptBytes -= bytes
        first = number
        onRestore(sources)
    }

    /// Removes the jobs with smaller numbers, and keeps them for a while.
    private func removePending(before end: Int) {
        guard end > first else { return }
        var number = first
        let accepted = pending.prefix { job in
            defer { number += job.sources }
            return number < end
        }
        let bytes = accepted.reduce(0) { $0 + $1.json.count }
        kept += accepted
        keptBytes += bytes
        pendingBytes -= bytes
        pending.removeFirst(accepted.count)
        first = end
        // Rarely, as the rest is moved.
        if keptBytes > keptLimit + keptLimit / 4 {
            var count = 0
            while keptBytes > keptLimit {
                keptBytes -= kept[count].json.count
                count += 1
            }
            kept.removeFirst(count)
        }
    }
}
