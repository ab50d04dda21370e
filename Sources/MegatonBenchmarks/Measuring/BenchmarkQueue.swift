import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonRedis
import NIOPosix

/// The queue that a benchmark uses.
struct BenchmarkQueue: Sendable {
    let address: QueueAddress
    /// URLs of the servers, which may contain passwords.
    let urls: [String]
    /// Whether its Redis was started for the benchmark.
    let isPrivate: Bool

    /// Time after which a worker that has sent no heartbeat is gone: the lease of a worker.
    private static let workerLease: Duration = .seconds(15)

    /// Options of child processes that use the queue.
    var childOptions: [String] { ["--queue", address.queue] }
    /// Environment of these processes. Its cache is on the same servers, whatever this process' environment names.
    var childEnvironment: [String: String] {
        ["MEGATON_REDIS": RedisOptions.variable(of: urls), "MEGATON_CACHE_REDIS": ""]
    }

    /// Runs the body with the queue, if nothing else uses it. Jobs that are left in its intakes are dropped at the end.
    ///
    /// - Throws: `CLIError` if the queue has jobs or workers.
    func withQueue<Value: Sendable>(_ body: (ShardedQueue) async throws -> Value) async throws -> Value {
        let queue = try await ShardedQueue.open(
            address,
            role: "bench",
            group: MultiThreadedEventLoopGroup.singleton,
            logger: LogOptions.logger("megaton.bench", level: .error)
        )
        defer { queue.close() }
        if isPrivate { return try await body(queue) }
        try await requireUnused(queue)
        let result: Result<Value, any Error>
        do {
            result = .success(try await body(queue))
        } catch {
            result = .failure(error)
        }
        do {
            try await Self.dropIntakes(of: queue)
            for mode in [JobQueue.PauseMode.paused, .drain] { try await queue.set(mode, to: false) }
        } catch {
            // The result, or the failure of the body, matters more.
            Terminal.error("megaton: the queue \"\(address.queue)\" could not be cleared: \(error.message)")
        }
        return try result.get()
    }

    /// Drops the jobs that were pushed and not staged.
    static func dropIntakes(of queue: ShardedQueue) async throws(RedisError) {
        _ = try await queue.forEach { (shard) async throws(RedisError) in
            try await shard.redis.send(["UNLINK", .string(shard.keys.jobs)])
        }
    }

    private func requireUnused(_ queue: ShardedQueue) async throws {
        let jobs = try await queue.alive() + queue.intakeCount()
        let workers = try await Self.livingWorkers(of: queue).max() ?? 0
        guard jobs > 0 || workers > 0 else { return }
        throw CLIError.usage(
            "the queue \"\(address.queue)\" has \(Counted.jobs(jobs)) and \(Counted.of(workers, "worker")), perhaps "
                + "of a benchmark that was interrupted. A benchmark needs a queue that nothing else uses, as it drops "
                + "jobs: name another with --queue, or wait until this one is empty."
        )
    }

    /// Number of workers that have sent a heartbeat within their lease, in each shard.
    static func livingWorkers(of queue: ShardedQueue) async throws(RedisError) -> [Int] {
        try await workers(of: queue, since: try await queue.now() - Int(workerLease.inSeconds * 1000))
    }

    /// Number of workers that have sent a heartbeat since then, in each shard.
    ///
    /// - Parameter time: milliseconds since 1970, by the clock of shard 0.
    static func workers(of queue: ShardedQueue, since time: Int) async throws(RedisError) -> [Int] {
        try await queue.forEach { (shard) async throws(RedisError) in
            try await shard.redis.send(["ZCOUNT", .string(shard.keys.workers), .int(time), "+inf"]).int ?? 0
        }
    }

    /// Waits until so many workers have sent a heartbeat to every shard since then.
    ///
    /// - Returns: whether that was in time.
    static func waitForWorkers(
        _ count: Int,
        of queue: ShardedQueue,
        since time: Int,
        atMost limit: Duration
    ) async throws -> Bool {
        let deadline = ContinuousClock.now + limit
        while try await workers(of: queue, since: time).min() ?? 0 < count {
            if ContinuousClock.now > deadline { return false }
            try await Task.sleep(for: .milliseconds(50))
        }
        return true
    }
}
