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
    package func add(_ json: Data, hasUniqueID: Bool = false) async throws(RedisError) {
        if !hasUniqueID { idsAreUnique = false }
        pending.append(json)
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

    /// Cancels what was pushed, as a batch that stays open never ends. A batch of the same name by another submitter is
    /// left alone.
    package func cancel() async throws(RedisError) {
        if wasTried { try await queue.cancel(batch: batch, of: submitter) }
    }

    private func push(isLast: Bool) async throws(RedisError) {
        let deadline = ContinuousClock.now + Self.retryTime
        var backoff = Backoff()
        var isDelayed = false
        wasTried = true
        try await retrying(until: ContinuousClock.now >= deadline) { () throws(RedisError) in
            // The number of the first job makes a repeated push harmless. Other tasks may add jobs, or push them,
            // before the reply.
            let (first, end) = (first, first + pending.count)
            let reply = try await queue.submit(
                pending,
                to: batch,
                first: first,
                isLast: isLast,
                policy: policy,
                idsAreUnique: idsAreUnique,
                submitter: submitter
            )
            submitted = max(submitted, reply)
            removePending(before: end)
        } pauseAfter: { error in
            guard error.isTransient else { return nil }
            if !isDelayed { onDelay(error) }
            isDelayed = true
            return backoff.next(after: error)
        }
    }

    /// Removes the jobs with smaller numbers. A cancelled batch has accepted fewer, and accepts no more.
    private func removePending(before end: Int) {
        guard end > first else { return }
        pendingBytes -= pending.prefix(end - first).reduce(0) { $0 + $1.count }
        pending.removeFirst(end - first)
        first = end
    }
}
