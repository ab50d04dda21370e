package import Foundation
internal import MegatonPipeline
package import MegatonRedis
import Synchronization

/// Pushes the jobs of one batch to the shards of a queue: decides the shard of each job, and begins and closes the
/// batch in all of them. Each shard has a `BatchSubmitter`; with one shard, that does everything.
package actor ShardedSubmitter {
    private let queue: ShardedQueue
    private let parts: [BatchSubmitter]
    private let retryTime: Duration
    private let stopsWaiting: @Sendable () -> Bool
    private var hasBegun = false
    /// The shard of each id that the caller gave, by the hash of the id: a repeated id goes to the shard that can
    /// compare the jobs.
    private var shardsOfIDs: [UInt64: UInt8] = [:]
    private let rememberedIDs: Int

    /// Maximum number of ids that are remembered, as many as a batch remembers in Redis: about 24 bytes each.
    package static let rememberedIDs = 1_000_000

    /// Creates a submitter; nothing is sent yet. The parameters are those of `BatchSubmitter`.
    ///
    /// - Parameters:
    ///   - keptLimit: of all shards together.
    ///   - rememberedIDs: maximum number of ids that are remembered.
    package init(
        queue: ShardedQueue,
        batch: String,
        policy: BatchPolicy = BatchPolicy(),
        keptLimit: Int = BatchSubmitter.keptBytes,
        rememberedIDs: Int = rememberedIDs,
        owner: String? = nil,
        retryTime: Duration = BatchSubmitter.retryTime,
        stopsWaiting: @escaping @Sendable () -> Bool = { false },
        onDelay: @escaping @Sendable (RedisError) -> Void = { _ in },
        onRestore: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.queue = queue
        self.rememberedIDs = rememberedIDs
        self.retryTime = retryTime
        self.stopsWaiting = stopsWaiting
        parts = queue.shards.map { shard in
            BatchSubmitter(
                queue: shard,
                batch: batch,
                policy: policy,
                keptLimit: keptLimit / queue.shards.count,
                owner: owner,
                shards: queue.shards.count,
                retryTime: retryTime,
                stopsWaiting: stopsWaiting,
                onDelay: onDelay,
                onRestore: onRestore
            )
        }
    }

    /// Number of jobs that Redis has acknowledged.
    package var submitted: Int {
        get async {
            var sum = 0
            for part in parts { sum += await part.submitted }
            return sum
        }
    }

    /// Adds a job; it is pushed when a chunk for its shard is full, or at `flush`.
    ///
    /// - Parameters:
    ///   - json: the JSON to push.
    ///   - job: the job, of a pack its first one: all of them have the same shard. Nil for a text that is none, which
    ///     is refused in any shard.
    ///   - sources: number of its sources, which is 1 unless it is a pack.
    ///   - hasUniqueID: whether the caller generated the id and uses it for no other job of the batch.
    ///   - isUrgent: whether it goes before all jobs of the batch that the coordinator has not read yet.
    /// - Throws: `.closed` after `close`.
    package func add(
        _ json: Data,
        job: Job?,
        sources: Int = 1,
        hasUniqueID: Bool = false,
        isUrgent: Bool = false
    ) async throws(RedisError) {
        if parts.count > 1 { try await begin() }
        let part = parts.count > 1 ? shard(of: job, json, hasUniqueID: hasUniqueID) : 0
        try await parts[part].add(json, sources: sources, hasUniqueID: hasUniqueID, isUrgent: isUrgent)
    }

    /// Pushes the jobs that were added.
    package func flush() async throws(RedisError) {
        try await forEach { (part) async throws(RedisError) in try await part.flush() }
    }

    /// Pushes the remaining jobs and closes the batch, so that it can end. No job can be added any more.
    package func close() async throws(RedisError) {
        guard parts.count > 1 else { return try await parts[0].close() }
        try await begin()
        // No shard may be closed while another one lacks jobs: the batch would seem to have ended.
        try await flush()
        try await forEach { (part) async throws(RedisError) in try await part.close() }
    }

    /// Pushes jobs again that a Redis had acknowledged and lost; see `BatchSubmitter.restore()`.
    package func restore() async throws(RedisError) {
        try await forEach { (part) async throws(RedisError) in try await part.restore() }
    }

    /// Cancels what was pushed; see `BatchSubmitter.cancel()`.
    ///
    /// - Returns: whether the batch was cancelled in any shard.
    /// - Throws: the first error, after all shards were tried.
    @discardableResult
    package func cancel() async throws(RedisError) -> Bool {
        let isCancelled = Mutex(false)
        try await forEach { (part) async throws(RedisError) in
            if try await part.cancel() { isCancelled.withLock { $0 = true } }
        }
        return isCancelled.withLock { $0 }
    }

    /// Makes the batch known to all shards: to shard 0 first, which decides who has the name.
    private func begin() async throws(RedisError) {
        if hasBegun { return }
        try await parts[0].begin()
        try await forEach { (part) async throws(RedisError) in try await part.begin() }
        // A change of the shards that has not seen this batch is seen here.
        let deadline = ContinuousClock.now + retryTime
        var backoff = Backoff()
        try await retrying(until: ContinuousClock.now >= deadline || stopsWaiting()) { () throws(RedisError) in
            try await queue.checkLayout()
        } pauseAfter: { error in
            error.isTransient ? backoff.next(after: error) : nil
        }
        hasBegun = true
    }

    private func shard(of job: Job?, _ json: Data, hasUniqueID: Bool) -> Int {
        // A pack that the caller has formed, for example: its sources go together, wherever that is.
        guard let job else { return queue.layout.shard(of: String(decoding: json.prefix(1024), as: UTF8.self)) }
        let chosen = Self.shard(of: job, queue.layout)
        guard !hasUniqueID, let id = job.id else { return chosen }
        let hash = ShardLayout.hash(id)
        if let known = shardsOfIDs[hash] { return Int(known) }
        if shardsOfIDs.count < rememberedIDs { shardsOfIDs[hash] = UInt8(chosen) }
        return chosen
    }

    /// The shard of a job: equal jobs, and jobs with the same idempotency key, have the same one.
    package static func shard(of job: Job, _ layout: ShardLayout) -> Int {
        layout.shard(of: job.idempotencyKey.map { "key " + $0 } ?? job.sourceDigest)
    }

    /// Runs the body for all shards at once.
    ///
    /// - Throws: the first error in the order of the shards, when all have ended.
    private func forEach(
        _ body: @escaping @Sendable (BatchSubmitter) async throws(RedisError) -> Void
    ) async throws(RedisError) {
        if parts.count == 1 { return try await body(parts[0]) }
        let parts = parts
        let failures = await withTaskGroup(of: (Int, RedisError)?.self) { group in
            for (index, part) in parts.enumerated() {
                group.addTask {
                    do throws(RedisError) {
                        try await body(part)
                        return nil
                    } catch {
                        return (index, error)
                    }
                }
            }
            return await group.reduce(into: [(Int, RedisError)]()) { all, next in
                if let next { all.append(next) }
            }
        }
        if let failure = failures.min(by: { $0.0 < $1.0 })?.1 { throw failure }
    }
}
