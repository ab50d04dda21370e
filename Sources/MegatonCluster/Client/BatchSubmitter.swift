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
    private let onDelay: @Sendable (RedisError) -> Void
    /// Distinguishes this batch from one of the same name by another submitter.
    private let submitter = String(UInt64.random(in: .min ... .max), radix: 16)
    /// Jobs that Redis has not acknowledged.
    private var pending: [Data] = []
    private var pendingBytes = 0
    /// Number of the first pending job, counted from 0.
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

    /// Maximum number of jobs, and of bytes, in one push.
    private static let chunk = 500
    private static let chunkBytes = 1024 * 1024
    /// Time for which a push is retried while Redis is unreachable or full.
    private static let retryTime: Duration = .seconds(60)

    /// Creates a submitter; nothing is sent yet.
    ///
    /// - Parameters:
    ///   - policy: options of the batch.
    ///   - onDelay: called once for each push that has to wait because Redis is unreachable or full.
    package init(
        queue: JobQueue,
        batch: String,
        policy: BatchPolicy = BatchPolicy(),
        onDelay: @escaping @Sendable (RedisError) -> Void = { _ in }
    ) {
        self.onDelay = onDelay
        self.queue = queue
        self.batch = batch
        self.policy = policy
    }

    /// Adds a job; it is pushed when a chunk is full, or at `flush`.
    ///
    /// - Parameter hasUniqueID: whether the caller generated the id and uses it for no other job of the batch.
    ///   Otherwise the batch remembers the ids it has seen, so that a repeated id is processed once.
    /// - Throws: `.closed` after `close`.
    package func add(_ json: Data, hasUniqueID: Bool = false) async throws(RedisError) {
        if isClosing {
            throw RedisError(.closed, "The batch \(batch) has been closed by its submitter: no job can be added.")
        }
        if !hasUniqueID { idsAreUnique = false }
        pending.append(json)
        pendingBytes += json.count
        if pending.count >= Self.chunk || pendingBytes >= Self.chunkBytes { try await flush() }
    }

    /// Pushes the jobs that were added.
    package func flush() async throws(RedisError) {
        try await push(before: first + pending.count)
    }

    /// Pushes the remaining jobs and closes the batch, so that it can end. No job can be added any more.
    package func close() async throws(RedisError) {
        isClosing = true
        try await push(before: first + pending.count, isLast: true)
    }

    /// Cancels what was pushed, as a batch that stays open never ends. A batch of the same name by another submitter is
    /// left alone.
    ///
    /// - Returns: whether the batch was cancelled; false if Redis has none of this submitter.
    @discardableResult
    package func cancel() async throws(RedisError) -> Bool {
        try await wasTried ? queue.cancel(batch: batch, of: submitter) : false
    }

    /// Pushes the jobs with smaller numbers than `end` in chunks, one push at a time: another task's push is awaited,
    /// and has left nothing to do if it included these jobs.
    ///
    /// - Parameter isLast: whether the last chunk closes the batch.
    private func push(before end: Int, isLast: Bool = false) async throws(RedisError) {
        while isPushing {
            if let error = await withCheckedContinuation({ waiters.append($0) }) { throw error }
        }
        isPushing = true
        do throws(RedisError) {
            while first < end || isLast && !isClosed {
                let count = chunkCount
                let closes = isLast && count == pending.count
                try await push(Array(pending.prefix(count)), closes: closes)
                if closes { isClosed = true }
            }
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
            defer { bytes += job.count }
            return bytes == 0 || bytes + job.count <= Self.chunkBytes
        }.count
        return count
    }

    private func push(_ jobs: [Data], closes: Bool) async throws(RedisError) {
        let deadline = ContinuousClock.now + Self.retryTime
        var backoff = Backoff()
        var isDelayed = false
        wasTried = true
        try await retrying(until: ContinuousClock.now >= deadline) { () throws(RedisError) in
            // The number of the first job makes a repeated push harmless.
            let reply = try await queue.submit(
                jobs,
                to: batch,
                first: first,
                isLast: closes,
                policy: policy,
                idsAreUnique: idsAreUnique,
                submitter: submitter
            )
            submitted = max(submitted, reply)
        } pauseAfter: { error in
            guard error.isTransient else { return nil }
            if !isDelayed { onDelay(error) }
            isDelayed = true
            return backoff.next(after: error)
        }
        // A cancelled batch has accepted fewer, and accepts no more.
        pendingBytes -= jobs.reduce(0) { $0 + $1.count }
        pending.removeFirst(jobs.count)
        first += jobs.count
    }
}
