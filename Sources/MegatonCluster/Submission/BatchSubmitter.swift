public import Foundation
public import MegatonRedis

/// Pushes the jobs of one batch, in chunks, each job exactly once however often a connection breaks.
///
/// Not for two tasks at once: the jobs are counted in their order.
public actor BatchSubmitter {
    private let queue: JobQueue
    private let batch: String
    private let policy: BatchPolicy
    private let onDelay: @Sendable (RedisError) -> Void
    /// A batch of this name that somebody else submitted is not taken for ours.
    private let submitter = String(UInt64.random(in: .min ... .max), radix: 16)
    private var pending: [Data] = []
    private var pendingBytes = 0
    /// Whether all ids so far were made for this batch.
    private var idsAreUnique = true
    /// How many jobs Redis has.
    public private(set) var submitted = 0

    /// Jobs and bytes of one push.
    private static let chunk = 500
    private static let chunkBytes = 1024 * 1024
    /// How long a push is tried while Redis is away or full.
    private static let patience: Duration = .seconds(60)

    /// - Parameters:
    ///   - policy: what is asked of the batch.
    ///   - onDelay: told once for each push that has to wait, as Redis is away or full.
    public init(
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
    /// - Parameter hasUniqueID: the caller made the id and gives it to no other job of the batch. Of other ids the batch
    ///   remembers which it has had, so that the same one is done once.
    public func add(_ json: Data, hasUniqueID: Bool = false) async throws(RedisError) {
        if !hasUniqueID { idsAreUnique = false }
        pending.append(json)
        pendingBytes += json.count
        if pending.count >= Self.chunk || pendingBytes >= Self.chunkBytes { try await flush() }
    }

    /// Pushes what was added.
    public func flush() async throws(RedisError) {
        if !pending.isEmpty { try await push(isLast: false) }
    }

    /// Pushes the rest and says that no more will come, so that the batch can end.
    public func close() async throws(RedisError) {
        try await push(isLast: true)
    }

    private func push(isLast: Bool) async throws(RedisError) {
        let deadline = ContinuousClock.now + Self.patience
        var backoff = Backoff()
        var isDelayed = false
        while true {
            do throws(RedisError) {
                // The number of the first job makes the repetition harmless.
                submitted = try await queue.submit(
                    pending,
                    to: batch,
                    first: submitted,
                    isLast: isLast,
                    policy: policy,
                    idsAreUnique: idsAreUnique,
                    submitter: submitter
                )
                pending = []
                pendingBytes = 0
                return
            } catch {
                guard error.isTransient, ContinuousClock.now < deadline, !Task.isCancelled else { throw error }
                if !isDelayed { onDelay(error) }
                isDelayed = true
                try? await Task.sleep(for: backoff.next(after: error))  // Cancelled: the next failure is thrown.
            }
        }
    }
}
