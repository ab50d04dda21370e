package import Foundation
package import MegatonRedis

/// Pushes the jobs of one batch in chunks, each job exactly once however often a connection breaks.
///
/// Jobs are numbered in the order in which they are added. Several tasks may add jobs: pushes that overlap send some
/// jobs twice, and Redis counts each once, by its number.
package actor BatchSubmitter {
    private let queue: JobQueue
    private let batch: String
    private let policy: BatchPolicy
    private let onDelay: @Sendable (RedisError) -> Void
    private let onRestore: @Sendable (Int) -> Void
    /// Distinguishes this batch from one of the same name by another submitter.
    private let submitter = String(UInt64.random(in: .min ... .max), radix: 16)
    /// The last jobs that Redis has acknowledged: a failover may lose them.
    private var kept: [PushedJob] = []
    private let keptLimit: Int
    private var keptBytes = 0
    /// Jobs that Redis has not acknowledged.
    private var pending: [PushedJob] = []
    private var pendingBytes = 0
    /// Number of the first pending job, counted from 0; a pack counts as its sources.
    private var first = 0
    /// Whether all ids so far were made for this batch.
    private var idsAreUnique = true
    /// Whether a push was sent, perhaps in vain: before the first one, Redis cannot have a batch of this submitter.
    private var wasTried = false
    /// Number of jobs that Redis has acknowledged.
    package private(set) var submitted = 0
    /// Whether Redis has acknowledged that no more jobs will come.
    private var isClosed = false
    private var wasClosedByOthers = false
    /// Whether the batch accepts no more jobs, because it was cancelled or another process has closed it.
    private var isRefused = false

    /// Maximum number of jobs, and of bytes, in one push.
    private static let chunk = 500
    private static let chunkBytes = 1024 * 1024
    /// Maximum number of bytes of acknowledged jobs that are kept.
    package static let keptBytes = 64 * 1024 * 1024
    /// Time for which a push is retried while Redis is unreachable or full.
    private static let retryTime: Duration = .seconds(60)

    /// Creates a submitter; nothing is sent yet.
    ///
    /// - Parameters:
    ///   - policy: options of the batch.
    ///   - keptLimit: maximum number of bytes of acknowledged jobs that are kept, to push them again if Redis loses
    ///     them.
    ///   - onDelay: called once for each push that has to wait because Redis is unreachable or full.
    ///   - onRestore: called with the number of jobs that Redis has lost and that will be pushed again.
    package init(
        queue: JobQueue,
        batch: String,
        policy: BatchPolicy = BatchPolicy(),
        keptLimit: Int = keptBytes,
        onDelay: @escaping @Sendable (RedisError) -> Void = { _ in },
        onRestore: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
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
    package func add(_ json: Data, sources: Int = 1, hasUniqueID: Bool = false) async throws(RedisError) {
        if !hasUniqueID { idsAreUnique = false }
        pending.append(PushedJob(json: json, sources: sources))
        pendingBytes += json.count
        if pending.count >= Self.chunk || pendingBytes >= Self.chunkBytes { try await flush() }
    }

    /// Pushes the jobs that were added.
    package func flush() async throws(RedisError) {
        if !pending.isEmpty { try await push(isLast: false) }
    }

    /// Pushes the remaining jobs and closes the batch, so that it can end.
    package func close() async throws(RedisError) {
        try await push(isLast: true)
    }

    /// Pushes jobs again that Redis had acknowledged and lost, because it has returned to an earlier state: a replica
    /// that lagged took over, or it restarted from an older file.
    ///
    /// - Throws: `.jobsLost` if it has lost more jobs than this submitter keeps.
    package func restore() async throws(RedisError) {
        guard submitted > 0 || isClosed, !isRefused else { return }
        let counters = BatchCounters(try await queue.batch(batch))
        if counters["submitted"] >= submitted && (!isClosed || counters["closed"] == 1) { return }
        try goBack(to: counters["submitted"])
        try await push(isLast: isClosed)
    }

    /// Cancels what was pushed, as a batch that stays open never ends. A batch of the same name by another submitter is
    /// left alone, and so is a batch that another process has closed: it ends by itself.
    package func cancel() async throws(RedisError) {
        if wasTried && !wasClosedByOthers { try await queue.cancel(batch: batch, of: submitter) }
    }

    private func push(isLast: Bool) async throws(RedisError) {
        let deadline = ContinuousClock.now + Self.retryTime
        var backoff = Backoff()
        var isDelayed = false
        wasTried = true
        try await retrying(until: ContinuousClock.now >= deadline) { () throws(RedisError) in
            while try await !pushChunk(isLast: isLast) || !pending.isEmpty {}
        } pauseAfter: { error in
            guard error.isTransient else { return nil }
            if !isDelayed { onDelay(error) }
            isDelayed = true
            return backoff.next(after: error)
        }
        if isLast { isClosed = true }
    }

    /// Pushes the first of the pending jobs.
    ///
    /// - Parameter isLast: whether the last of the pending jobs is the last of the batch.
    /// - Returns: false if Redis has lost jobs before them, which are then pending too.
    private func pushChunk(isLast: Bool) async throws(RedisError) -> Bool {
        // The number of the first job makes a repeated push harmless. Other tasks may add jobs, or push them, before
        // the reply.
        let jobs = chunk()
        let (first, end) = (first, jobs.reduce(first) { $0 + $1.sources })
        do throws(RedisError) {
            let reply = try await queue.submit(
                jobs,
                to: batch,
                first: first,
                isLast: isLast && jobs.count == pending.count,
                policy: policy,
                idsAreUnique: idsAreUnique,
                submitter: submitter
            )
            // A cancelled batch has accepted fewer, and accepts no more.
            if reply < end { isRefused = true }
            submitted = max(submitted, reply)
            removePending(before: end)
            return true
        } catch {
            switch error.code {
            case .batchBehind:
                try goBack(to: BatchCounters(try await queue.batch(batch))["submitted"])
                return false
            case .batchClosed:
                (wasClosedByOthers, isRefused) = (true, true)
                throw error
            default: throw error
            }
        }
    }

    private func chunk() -> ArraySlice<PushedJob> {
        var bytes = 0
        let count = pending.prefix(Self.chunk).prefix { job in
            defer { bytes += job.json.count }
            return bytes < Self.chunkBytes
        }.count
        return pending.prefix(count)
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
                "Redis has lost jobs: it acknowledged \(submitted) of the batch \(batch) and has \(number), and only the "
                    + "last \(sources) can be pushed again. It ended before they were on its disk, or a replica without "
                    + "them took over. Submit again: finished work is in the cache."
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
