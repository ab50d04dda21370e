internal import Foundation
internal import MegatonPipeline
internal import MegatonRedis

/// Reads the outcomes of one batch in pages, each when it is asked for.
final class OutcomeReader {
    let name: String
    private let batch: Batch
    /// Nil before the first read.
    private var queue: ShardedQueue?
    /// Waits for outcomes: a blocking command needs a connection of its own.
    private let waiting: RedisClient
    private let from: Int?
    /// Nil before the first read.
    private var cursor: OutcomeCursors?
    /// Number of outcomes that were returned.
    private var received = 0
    /// Number of jobs that have no outcome yet, as far as known.
    private var open = 0
    private var lastPage = 0
    private var nextStatus = ContinuousClock.now
    private var withoutWorkersSince: ContinuousClock.Instant?
    /// When this reader first saw that all jobs have ended and the batch is open.
    private var openWithoutJobsSince: ContinuousClock.Instant?

    /// Number of outcomes that are recognized after Redis has returned to an earlier state, at 16 bytes each.
    private static let remembered = 1_000_000
    /// Number of outcomes from which a read is worthwhile. Fewer are left to accumulate while more than this are
    /// awaited, as a read for each would cost as much as the rest of the queue.
    private static let many = 100
    private static let batchingWindow: Duration = .milliseconds(50)
    /// Longest interval at which a reader without outcomes checks for workers.
    private static let statusInterval: Duration = .seconds(5)

    init(_ batch: Batch, from number: Int?) {
        self.batch = batch
        from = number
        name = batch.name
        waiting = batch.client.connection(role: "results")
    }

    deinit { waiting.close() }

    /// Waits for the next outcomes. Those that were returned before are acknowledged, and deleted from Redis: of
    /// several shards, those of the shard that is read, and at the end those of all. So a reader that stops gets up to
    /// one page of each shard again.
    ///
    /// - Returns: none at the end of the batch.
    func page() async throws -> [Data] {
        let waiting = waiting
        return try await withTaskCancellationHandler {
            if lastPage < Self.many, open > Self.many { try await Task.sleep(for: Self.batchingWindow) }
            while true {
                try Task.checkCancellation()
                if let page = try await nextPageRetrying() { return page }
            }
        } onCancel: {
            waiting.close()
        }
    }

    /// `nextPage`, retried while Redis is unreachable, for `idleTimeout` of the client at most.
    private func nextPageRetrying() async throws -> [Data]? {
        var backoff = Backoff()
        var unreachableSince: ContinuousClock.Instant?
        do {
            return try await retrying(cancellation: CancellationError()) {
                try await nextPage()
            } pauseAfter: { error in
                guard let error = error as? RedisError, error.isTransient else { return nil }
                let since = unreachableSince ?? .now
                unreachableSince = since
                return since.duration(to: .now) < batch.client.idleTimeout ? backoff.next(after: error) : nil
            }
        } catch let error as RedisError {
            // The cancellation has closed the connection.
            try Task.checkCancellation()
            throw ClusterError(error)
        }
    }

    /// The next outcomes; none at the end of the batch, nil if there are none yet.
    private func nextPage() async throws -> [Data]? {
        let monitor = BatchMonitor(queue: try await queues(), batch: name)
        if let page = try await read() { return page }
        let counters = try await monitor.counters()
        try check(counters)
        if counters.isFinished || counters.lacksOnlyLostParts {
            // The last outcomes came in the same step as the end of the batch.
            if let page = try await read() { return page }
            try checkParts(counters)
            try checkMissing(counters)
            return []
        }
        try checkClosing(counters)
        try await checkWorkers(counters)
        try await monitor.waitForOutcome(on: waiting)
        return nil
    }

    /// The queue on all of its shards. A batch stays in those in which it began, so that later ones do not matter.
    private func queues() async throws -> ShardedQueue {
        if let queue { return queue }
        let queue = try await batch.client.queue()
        self.queue = queue
        return queue
    }

    private func read() async throws -> [Data]? {
        var cursor: OutcomeCursors
        if let begun = self.cursor {
            cursor = begun
            // Only one copy, or the next page would copy the whole history.
            self.cursor = nil
        } else {
            let queue = try await queues()
            cursor = OutcomeCursors(queue: queue, batch: name, histories: try await histories(in: queue))
        }
        defer { self.cursor = cursor }
        let page = try await cursor.next()
        if page.isEmpty { return nil }
        received += page.count
        open -= page.count
        lastPage = page.count
        withoutWorkersSince = nil
        openWithoutJobsSince = nil
        return page
    }

    /// The outcomes of each shard that the reader does not want.
    private func histories(in queue: ShardedQueue) async throws -> [OutcomeHistory] {
        if let from, from > 1, queue.isDivided {
            throw ClusterError(
                .invalidConfiguration,
                "The queue has \(queue.shards.count) shards, each of which numbers its own outcomes: the batch \(name) "
                    + "cannot be read from the number \(from) on. Read from 1, or without a number."
            )
        }
        let batch = name
        let parts = try await queue.forEach { (shard) async throws(RedisError) in
            BatchCounters(try await shard.batch(batch))
        }
        let counters = BatchCounters.sum(parts)
        try check(counters)
        let read = parts.map { part in from.map { max($0 - 1, 0) } ?? part["read"] }
        open = (self.batch.submitted ?? max(counters["submitted"], counters["total"])) - read.reduce(0, +)
        return OutcomeHistories(after: read, limit: Self.remembered).all
    }

    /// Ends the iteration with an error if the batch has ended and outcomes are missing.
    private func checkMissing(_ counters: BatchCounters) throws(ClusterError) {
        let deleted = (cursor?.history.deleted ?? 0) + counters["results_dropped"]
        // Jobs that were cancelled before they were admitted have no outcome.
        let isWhole = from == nil && counters["read"] <= received && counters["cancelled"] == 0
        let missing = isWhole ? (batch.submitted ?? 0) - received : 0
        let count = max(deleted, missing)
        guard count > 0 else { return }
        let reason =
            deleted > 0
            ? "they were not read in time and were deleted to make room"
            : "Redis has lost them, and those jobs may have run"
        throw ClusterError(
            .outcomesLost,
            "\(count) outcomes of the batch \(name) are missing: \(reason). The jobs' outputs are not affected. Submit "
                + "the missing jobs again under another name: finished work is found in the cache."
        )
    }

    private func check(_ counters: BatchCounters) throws(ClusterError) {
        guard counters.isKnown else {
            throw ClusterError(
                .unknownBatch,
                "There is no batch \(name): none of this name was submitted to the queue, or it ended so long ago "
                    + "that it was forgotten, or Redis lost it."
            )
        }
        guard counters["ledger"] == 1 else {
            throw ClusterError(.noOutcomes, "The batch \(name) was submitted without a ledger and keeps no outcomes.")
        }
        guard let submitted = batch.submitted, !counters.isFinished else { return }
        guard counters["closed"] == 1, counters["submitted"] >= submitted else {
            throw ClusterError(
                .jobsLost,
                "Redis has lost jobs: of \(submitted) that it had acknowledged, the batch \(name) has "
                    + "\(counters["submitted"]). Submit again: finished work is found in the cache."
            )
        }
    }

    /// Ends the iteration with an error if a shard no longer has its part of the batch, and all others were read.
    private func checkParts(_ counters: BatchCounters) throws(ClusterError) {
        // All jobs of a small batch may have been in the other shards.
        guard counters.lacksOnlyLostParts, batch.submitted.map({ counters["submitted"] < $0 }) ?? true else { return }
        let lost = counters.lostShards
        throw ClusterError(
            .jobsLost,
            "\(lost) of \(counters["shards"]) shards no longer \(lost == 1 ? "has its" : "have their") part of the "
                + "batch \(name): it was forgotten there, or Redis has lost it, and its jobs may not have run. Submit "
                + "the jobs without an outcome again under another name: finished work is found in the cache."
        )
    }

    /// Ends the iteration if another program submits the batch and does not go on: its submitter may have died, and
    /// jobs that name a batch in the public list never close it.
    private func checkClosing(_ counters: BatchCounters) throws(ClusterError) {
        let count = max(counters["submitted"], counters["total"])
        guard batch.submitted == nil, counters["closed"] != 1, counters.ended >= count else {
            openWithoutJobsSince = nil
            return
        }
        let since = openWithoutJobsSince ?? .now
        openWithoutJobsSince = since
        let limit = batch.client.idleTimeout
        guard since.duration(to: .now) >= limit else { return }
        let state =
            switch count {
            case 0: "The batch \(name) has no jobs"
            case 1: "The only job of the batch \(name) has ended"
            default: "All \(count) jobs of the batch \(name) have ended"
            }
        throw ClusterError(
            .notClosed,
            "\(state), and for \(limit.inSeconds.formatted()) s its submitter has neither added jobs nor closed it. "
                + "If none will come, close the batch; otherwise read the outcomes again."
        )
    }

    /// Ends the iteration if no worker runs for too long.
    private func checkWorkers(_ counters: BatchCounters) async throws {
        let limit = batch.client.idleTimeout
        guard ContinuousClock.now >= nextStatus else { return }
        nextStatus = .now + min(Self.statusInterval, limit / 4)
        if try await queues().hasLivingWorker(timeout: Self.statusInterval) {
            withoutWorkersSince = nil
            return
        }
        let since = withoutWorkersSince ?? .now
        withoutWorkersSince = since
        guard since.duration(to: .now) >= limit else { return }
        throw ClusterError(
            .noWorker,
            "No worker is running, for \(limit.inSeconds.formatted()) s: \(counters.ended) of "
                + "\(max(counters["submitted"], counters["total"])) jobs of the batch \(name) have ended, and the "
                + "others wait in Redis. Start megaton worker, and read the outcomes again."
        )
    }
}
