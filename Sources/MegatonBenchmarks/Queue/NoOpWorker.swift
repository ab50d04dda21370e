import Logging
import MegatonCluster
import MegatonRedis
import NIOCore

/// Claims jobs and ends them at once without processing them, to measure the cost of the queue itself.
///
/// It calls the same scripts with the same arguments as a worker, for each shard. It renews no leases, as no job lasts.
/// The jobs of one claim end together in one call, while a worker's jobs end a few at a time.
struct NoOpWorker: Sendable {
    private let queue: ShardedQueue
    /// One for each shard.
    private let wakes: [RedisClient]
    private let name: String
    private let onClaim: @Sendable ([String]) -> Void

    /// Jobs of one claim.
    private static let claimed = JobQueue.maximumBatchSize
    /// Concurrent claims of each shard: while one is being settled, the next is on its way.
    private static let lanes = 2
    private static let lease: Duration = .seconds(60)

    /// - Parameters:
    ///   - queue: closed at the end.
    ///   - onClaim: receives the ids of each claim; must not block.
    init(
        _ queue: ShardedQueue,
        group: any EventLoopGroup,
        name: String,
        logger: Logger,
        onClaim: @escaping @Sendable ([String]) -> Void
    ) {
        self.queue = queue
        wakes = queue.shards.map { shard in
            RedisClient(shard.redis.configuration, role: "wake", group: group, logger: logger)
        }
        self.name = name
        self.onClaim = onClaim
    }

    /// Claims and ends jobs until the signal.
    func run(until signal: ShutdownSignal) async throws {
        defer {
            queue.close()
            for wake in wakes { wake.close() }
        }
        let info = WorkerInfo(concurrency: Self.claimed * Self.lanes).json
        for shard in queue.shards { _ = try await shard.renew([], worker: name, lease: Self.lease, info: info) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (shard, wake) in zip(queue.shards, wakes) {
                for _ in 0..<Self.lanes { group.addTask { try await work(shard, wake, until: signal) } }
            }
            try await group.waitForAll()
        }
        for shard in queue.shards { try await shard.release([], worker: name, leaves: true) }
    }

    private func work(_ shard: JobQueue, _ wake: RedisClient, until signal: ShutdownSignal) async throws {
        while signal.level == .none {
            let jobs = try await shard.claim(Self.claimed, worker: name, lease: Self.lease)
            if jobs.isEmpty {
                try await wake.send(["BLPOP", .string(shard.keys.wake), "0.2"], timeout: .seconds(3))
                continue
            }
            onClaim(jobs.map(\.id))
            let ends = jobs.map { JobCompletion(job: $0, outcome: JobOutcome(source: "", status: .done)) }
            _ = try await shard.settle(ends, worker: name)
        }
    }
}
