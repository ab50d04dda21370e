import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonCore
import MegatonPipeline
import MegatonRedis
import NIOPosix

/// The processes beside a run.
extension RunCommand {
    /// Runs the body with a coordinator in this process and workers in their own processes.
    func withHelpers<Value: Sendable>(
        _ control: [RedisConfiguration],
        _ files: Files,
        _ count: Int,
        _ shutdown: ShutdownSignal,
        _ deadline: ContinuousClock.Instant?,
        _ body: @Sendable @escaping () async throws -> Value
    ) async throws -> Value {
        var configuration = Coordinator.Configuration()
        configuration.keys = redis.keys
        configuration.furtherControls = Array(control.dropFirst())
        // Jobs have the renditions of these presets already: messages about other names list them.
        configuration.presets = try batch.presets.load()
        if worker.policy == .storeReused {
            configuration.caches = redis.namesRedis ? try redis.caches() : control
        }
        // On an existing cluster it leads only if no coordinator does, and yields to one that knows the presets.
        if redis.namesRedis { configuration.takeoverDelay = .zero }
        let coordinator = Coordinator(
            configuration,
            redis: control[0],
            group: MultiThreadedEventLoopGroup.singleton,
            name: ProcessIdentity.process(),
            logger: LogOptions.logger("megaton.coordinator", level: options.shownLevel ?? .error)
        )
        try await coordinator.start()
        let queue = try await ShardedQueue.open(
            QueueAddress(control, queue: redis.queue),
            role: "fleet",
            group: MultiThreadedEventLoopGroup.singleton,
            logger: LogOptions.logger("megaton.redis", level: .error)
        )
        defer { queue.close() }
        let fleet = try fleet(control, files.paths, count, queue)
        return try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask {
                await coordinator.runUntilCancelled()
                return nil
            }
            group.addTask {
                try await run(fleet, until: files.jobsEnded)
                return nil
            }
            group.addTask {
                try await waitForWorkers(count, queue, shutdown, deadline)
                return try await body()
            }
            defer { group.cancelAll() }
            while let value = try await group.next() {
                if let value { return value }
            }
            throw CLIError.broken("all workers ended before the batch.")
        }
    }

    /// The workers end while the last shard gets its index: Redis, which ends after them, must not wait for both.
    private func run(_ fleet: WorkerFleet, until jobsEnded: AsyncSignal) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await fleet.run() }
            group.addTask { await jobsEnded.wait() }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    /// Waits until the workers are registered, so that all share the work from the start. Late ones are not waited for.
    private func waitForWorkers(
        _ count: Int,
        _ queue: ShardedQueue,
        _ shutdown: ShutdownSignal,
        _ deadline: ContinuousClock.Instant?
    ) async throws {
        let limit = ContinuousClock.now + .seconds(5)
        let end = deadline.map { min($0, limit) } ?? limit
        while ContinuousClock.now < end && shutdown.level == .none {
            if try await queue.workerCount() >= count { return }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    private func fleet(
        _ control: [RedisConfiguration],
        _ paths: RunPaths,
        _ count: Int,
        _ queue: ShardedQueue
    ) throws -> WorkerFleet {
        let roots =
            paths.outputRoots.flatMap { ["--allow-root", $0] } + paths.readRoots.flatMap { ["--allow-read", $0] }
            + (try target?.bucket().map { ["--allow-bucket", $0.description] } ?? [])
        // The processes share the processors equally.
        let threads = max(1, ProcessInfo.processInfo.activeProcessorCount / count)
        return WorkerFleet(
            count: count,
            // They notice the end of the batch sooner than those of a fleet must, and exit then: jobs that still run
            // are not waited for.
            arguments: [
                "--queue", redis.queue, "--render-threads", String(threads), "--lease", "9", "--drain-timeout", "2",
                "--part-of-run",
            ] + roots + worker.arguments(workers: count)
                + ["--log-level", (options.shownLevel ?? .warning).rawValue],
            environment: [
                // The run has decided on all options of its workers.
                "MEGATON_CONFIG": "/dev/null",
                "MEGATON_REDIS": RedisOptions.variable(
                    of: redis.namesRedis ? redis.redis : control.map(\.description)
                ),
                "MEGATON_CACHE_REDIS": RedisOptions.variable(of: redis.cacheRedis),
            ].merging(redis.tlsEnvironment) { url, _ in url }
                .merging(ConfigurationRules.blankVariables(of: WorkerCommand.self)) { own, _ in own },
            keepsLogs: options.shownLevel == nil,
            report: { pid in
                // Redis is unreachable: the leases expire by themselves when it is back.
                try? await queue.report(deathOf: pid, on: ProcessInfo.processInfo.hostName)
            }
        )
    }
}
