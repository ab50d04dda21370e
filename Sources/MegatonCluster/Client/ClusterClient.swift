internal import Foundation
public import Logging
internal import MegatonCore
package import MegatonRedis
internal import NIOPosix
import Synchronization

/// Submits batches of jobs to a cluster and reads their outcomes.
///
/// ```swift
/// let client = try ClusterClient(redis: "redis://127.0.0.1:6479")
/// let batch = try await client.submit(urls.map { Job(source: $0, renditions: [Rendition(width: 256)]) })
/// for try await outcome in batch.outcomes { print(outcome.source, outcome.status) }
/// client.close()
/// ```
///
/// - **Connections.** The client owns one connection to the control Redis, or to each shard of the queue, which opens
///   with the first call and ends with ``close()`` or with the last reference to the client and its batches. Each
///   iteration of outcomes has one more, which ends with it.
/// - **Outages of Redis.** A push is retried for a minute, and each job is pushed exactly once. An iteration waits for
///   Redis for the client's idle time-out. Both then throw ``ClusterError/Code/redisUnavailable``. Nothing is lost: the
///   cluster continues, and a new iteration continues with the first outcome that was not read.
/// - **Errors of jobs** are outcomes, never errors of the iteration. This includes jobs that the cluster refuses.
/// - **Equal ids.** Each job has one outcome. A repeated id with the same job ends as `deduplicated` with the outputs
///   of the first, with another job as failed with the code `id_conflict`.
/// - **Cancellation** of a task that submits cancels the batch. Cancellation of a task that iterates ends the iteration
///   with `CancellationError`, and the batch continues; ``Batch/cancel()`` ends it.
/// - **Retention.** A batch is forgotten seven days after its end, with outcomes that were not read. Redis keeps a
///   million unread outcomes of a batch: submit larger batches in parts.
public final class ClusterClient: Sendable {
    let idleTimeout: Duration
    private let address: QueueAddress
    /// Shard 0.
    private let first: JobQueue
    private let state = Mutex(State())
    private let logger: Logger

    private typealias Opening = Promise<Result<ShardedQueue, RedisError>>

    private struct State {
        /// The queue as it was when it was used, the last one at the end: iterations continue with the shards of their
        /// batch.
        var opened: [ShardedQueue] = []
        /// When the client last looked whether the queue still has these shards.
        var checked: ContinuousClock.Instant?
        /// Whether the queue is being opened.
        var isOpening = false
        /// The calls that wait for the opening.
        var waiters: [Opening] = []
        var isClosed = false
    }

    /// Time for which a question about the present state relies on the last look.
    private static let checkInterval: Duration = .seconds(1)
    /// Interval at which a call waits for the end of a change of the shards.
    private static let changeInterval: Duration = .milliseconds(100)

    /// Creates a client; nothing is sent yet.
    ///
    /// - Parameters:
    ///   - redis: URL of the control Redis: `redis://[user:password@]host[:port][/database]`,
    ///     `rediss://…[?ca=file.pem&cert=file.pem&key=file.pem]`, `unix:///path/of/socket`,
    ///     `redis-sentinel://host:port,host:port/name` or `redis+cluster://host:port,host:port`. For a queue whose
    ///     shards are on several Redis, their URLs in order, with spaces in between.
    ///   - queue: the queue's name, as in `megaton worker --queue`.
    ///   - idleTimeout: how long an iteration of outcomes waits for an unreachable Redis, for a cluster without
    ///     workers, or for more jobs of a batch that another submitter has not closed; and how long any call waits
    ///     while the number of the queue's shards is being changed. A minute by default.
    /// - Throws: ``ClusterError`` if the URL or the name of the queue is invalid.
    public convenience init(
        redis: String,
        queue: String = "default",
        idleTimeout: Duration = .seconds(60),
        logger: Logger = Logger(label: "megaton.client")
    ) throws {
        self.init(
            QueueAddress(try ClusterError.servers(redis), queue: try ClusterError.keys(queue).queue),
            idleTimeout: idleTimeout,
            logger: logger
        )
    }

    /// Creates a client of a queue whose address was read already; nothing is sent yet.
    package init(_ address: QueueAddress, idleTimeout: Duration, logger: Logger) {
        self.address = address
        self.idleTimeout = idleTimeout
        self.logger = logger
        first = address.shard(0, role: "client", group: MultiThreadedEventLoopGroup.singleton, logger: logger)
    }

    deinit { close() }

    /// The queue on all of its shards, as they are now.
    ///
    /// A client may live for longer than a number of shards: without a look at the layout it would miss outcomes. While
    /// the number of shards is being changed, a call waits, for the idle time-out at most.
    ///
    /// - Parameter isFresh: whether to look at the layout in any case. Otherwise a look of a moment ago is enough.
    package func queue(isFresh: Bool = true) async throws(RedisError) -> ShardedQueue {
        let deadline = ContinuousClock.now + idleTimeout
        while true {
            do throws(RedisError) {
                return try await currentQueue(isFresh: isFresh)
            } catch {
                guard error.code == .shardMismatch, ContinuousClock.now < deadline, try await isChanging() else {
                    throw error
                }
            }
            do {
                try await Task.sleep(for: Self.changeInterval)
            } catch {
                throw RedisError(.busy, "The call was cancelled while the shards of the queue were being changed.")
            }
        }
    }

    /// Whether the number of shards is being changed.
    private func isChanging() async throws(RedisError) -> Bool {
        try await first.layout().flatMap(ShardLayout.parse)?.layout.target != nil
    }

    private func currentQueue(isFresh: Bool) async throws(RedisError) -> ShardedQueue {
        let (last, count, checked) = state.withLock { ($0.opened.last, $0.opened.count, $0.checked) }
        if let queue = last {
            if !isFresh, let checked, checked.duration(to: .now) < Self.checkInterval { return queue }
            do throws(RedisError) {
                try await queue.checkLayout()
                state.withLock { $0.checked = .now }
                return queue
            } catch {
                // A call that needs a shard that is away reports that itself.
                if error.isTransient { return queue }
                guard error.code == .shardMismatch else { throw error }
            }
        }
        return try await opening(after: count)
    }

    /// Opens the queue; concurrent calls share one opening. A failed one is not remembered.
    ///
    /// - Parameter count: number of openings that the caller has seen: the result of a later one is used as it is.
    private func opening(after count: Int) async throws(RedisError) -> ShardedQueue {
        let waiter = Opening()
        let begins = state.withLock { state in
            if state.isClosed {
                waiter.resolve(.failure(Self.closed))
                return false
            }
            if state.opened.count > count, let queue = state.opened.last {
                waiter.resolve(.success(queue))
                return false
            }
            state.waiters.append(waiter)
            defer { state.isOpening = true }
            return !state.isOpening
        }
        // Unstructured because several calls wait for it: the cancellation of one must not fail the others. It is
        // bounded by the time-outs of connections and commands.
        if begins { Task { await open() } }
        let result = await withTaskCancellationHandler {
            await waiter.value
        } onCancel: {
            waiter.resolve(.failure(RedisError(.busy, "The call was cancelled while the queue was being opened.")))
        }
        return try result.get()
    }

    /// Opens the queue and reports the result to all calls that wait for it.
    private func open() async {
        var result: Result<ShardedQueue, RedisError>
        do throws(RedisError) {
            let queue = try await ShardedQueue.open(
                first,
                address,
                role: "client",
                group: MultiThreadedEventLoopGroup.singleton,
                logger: logger
            )
            result = .success(queue)
        } catch {
            result = .failure(error)
        }
        let opened = try? result.get()
        let (waiters, isClosed) = state.withLock { state in
            if let opened, !state.isClosed {
                state.opened.append(opened)
                state.checked = .now
            }
            state.isOpening = false
            defer { state.waiters = [] }
            return (state.waiters, state.isClosed)
        }
        if isClosed {
            opened?.close()
            result = .failure(Self.closed)
        }
        for waiter in waiters { waiter.resolve(result) }
    }

    private static let closed = RedisError(.closed, "The client was closed.")

    /// Submits a batch and returns when Redis has all of its jobs. The jobs are pushed in chunks, so that a lazy
    /// sequence is never in memory as a whole. Without jobs the batch ends at once.
    ///
    /// - Parameters:
    ///   - name: the batch's name, `[A-Za-z0-9._:-]{1,128}` except `.` and `..`; a unique one if nil. A name can be
    ///     used again when the batch has been forgotten.
    ///   - deduplicates: whether jobs with the same source, renditions and output are done only once; the others end as
    ///     `deduplicated`. For jobs without an id too.
    ///   - weight: share of this batch relative to other batches, 1 to 100.
    /// - Throws: ``ClusterError``, or `CancellationError`. The jobs that were already pushed are then cancelled, unless
    ///   another process has closed the batch (``ClusterError/Code/batchClosed``).
    public func submit(
        _ jobs: some Sequence<Job>,
        batch name: String? = nil,
        deduplicates: Bool = false,
        weight: Int = 1
    ) async throws -> Batch {
        let name = name ?? ProcessIdentity.batch("batch")
        guard Job.isName(name) else {
            throw ClusterError(.invalidConfiguration, "A batch's name must have \(Job.nameRule).")
        }
        let weights = 1...BatchPolicy.maximumWeight
        guard weights.contains(weight) else {
            throw ClusterError(
                .invalidConfiguration,
                "A batch's weight must be \(weights.lowerBound) to \(weights.upperBound), not \(weight)."
            )
        }
        let policy = BatchPolicy(keepsLedger: true, deduplicates: deduplicates, weight: weight)
        var submitter: ShardedSubmitter?
        do {
            let queue = try await queue()
            let pushing = ShardedSubmitter(
                queue: queue,
                batch: name,
                policy: policy,
                onDelay: { [logger] error in
                    logger.warning("a push waits for Redis", metadata: [LogKey.error: "\(error)"])
                },
                onRestore: { [logger] count in
                    logger.warning(
                        "Redis has returned to an earlier state; jobs that it has lost are submitted again",
                        metadata: [LogKey.batch: "\(name)", "jobs": "\(count)"]
                    )
                }
            )
            submitter = pushing
            for server in queue.shards.servers { try await EvictionPolicyCheck.run(server) }
            for job in jobs {
                try Task.checkCancellation()
                try await pushing.add(job.json(), job: job, hasUniqueID: job.id == nil)
            }
            try await pushing.close()
            return Batch(name: name, submitted: await pushing.submitted, client: self)
        } catch {
            if let submitter { await abandon(name, submitter) }
            let reason = error as? RedisError
            // A cancellation also ends the wait for a Redis that is unreachable or full.
            if reason?.isTransient == true { try Task.checkCancellation() }
            throw reason.map(ClusterError.init) ?? error
        }
    }

    /// Cancels a batch of which only a part was pushed, and which would therefore never end. A batch of this name that
    /// another client has submitted is left alone.
    private func abandon(_ name: String, _ submitter: ShardedSubmitter) async {
        do {
            try await submitter.cancel()
        } catch {
            logger.warning(
                "the batch could not be cancelled",
                metadata: [LogKey.batch: "\(name)", LogKey.error: "\(error)"]
            )
        }
    }

    /// A batch that was submitted before, also by another process or by `megaton submit --wait`.
    public func batch(_ name: String) -> Batch { Batch(name: name, submitted: nil, client: self) }

    /// The current state of the queue and its workers.
    ///
    /// - Throws: ``ClusterError``.
    public func status() async throws -> ClusterStatus {
        do {
            // The status comes from the queue alone: no cache is asked.
            return try await Inspector(queue: try await queue(isFresh: false), cache: first.redis).status()
        } catch {
            throw ClusterError(error)
        }
    }

    /// Closes the connection. Iterations of outcomes and later calls throw.
    public func close() {
        let opened = state.withLock { state in
            state.isClosed = true
            return state.opened
        }
        first.close()
        for queue in opened { queue.close() }
    }

    /// A connection to shard 0 for blocking commands, which its user closes.
    func connection(role: String) -> RedisClient {
        RedisClient(address.server(0), role: role, group: MultiThreadedEventLoopGroup.singleton, logger: logger)
    }
}
