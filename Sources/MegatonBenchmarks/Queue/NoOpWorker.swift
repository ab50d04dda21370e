import Logging
import MegatonCluster
import MegatonRedis
import NIOCore

/// Claims jobs and ends them at once without processing them, to measure the cost of the queue itself.
///
/// It calls the same scripts with the same arguments as a worker. It renews no leases, as no job lasts. The jobs of one
/// claim end together in one call, while a worker's jobs end a few at a time.
struct NoOpWorker: Sendable {
    private let queue: JobQueue
    private let wake: RedisClient
    private let name: String
    private let onClaim: @Sendable ([String]) -> Void

    /// Jobs of one claim.
    private static let claimed = JobQueue.maximumBatchSize
    /// Concurrent claims: while one is being settled, the next is on its way.
    private static let lanes = 2
    private static let lease: Duration = .seconds(60)

    /// - Parameter onClaim: receives the ids of each claim; must not block.
    init(
        _ redis: RedisConfiguration,
        keys: QueueKeys,
        group: any EventLoopGroup,
        name: String,
        logger: Logger,
        onClaim: @escaping @Sendable ([String]) -> Void
    ) {
        queue = JobQueue(RedisClient(redis, role: "noop", group: group, logger: logger), keys: keys)
        wake = RedisClient(redis, role: "wake", group: group, logger: logger)
        self.name = name
        self.onClaim = onClaim
    }

    /// Claims and ends jobs until the signal.
    func run(until signal: ShutdownSignal) async throws {
        defer {
            queue.close()
            wake.close()
        }
        let info = WorkerInfo(concurrency: Self.claimed * Self.lanes)
        _ = try await queue.renew([], worker: name, lease: Self.lease, info: info.json)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<Self.lanes { group.addTask { try await work(until: signal) } }
            try await group.waitForAll()
        }
        try await queue.release([], worker: name, leaves: true)
    }

    private func work(until signal: ShutdownSignal) async throws {
        while signal.level == .none {
            let jobs = try await queue.claim(Self.claimed, worker: name, lease: Self.lease)
            if jobs.isEmpty {
                try await wake.send(["BLPOP", .string(queue.keys.wake), "0.2"], timeout: .seconds(3))
                continue
            }
            onClaim(jobs.map(\.id))
            let ends = jobs.map { JobCompletion(job: $0, outcome: JobOutcome(source: "", status: .done)) }
            _ = try await queue.settle(ends, worker: name)
        }
    }
}
