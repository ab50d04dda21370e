package import Logging
package import MegatonPipeline
internal import MegatonRedis
package import NIOCore

/// A worker without a pipeline: claims, renews leases, sweeps, checks for a leader and settles jobs of all shards like
/// a real one. Benchmarks use it to measure the load of a large fleet on its queue.
///
/// It shares connections with others, flushes no statistics, and does not check whether the protocol or the number of
/// shards of the queue changes.
package struct BareWorker: Sendable {
    private let name: String
    private let shards: [WorkerShard]
    private let fallbacks: [Leadership]
    private let logger: Logger

    /// Interval at which a worker of a small fleet and one shard checks whether it must admit jobs by itself.
    private static let pollInterval: Duration = .seconds(1)

    /// - Parameters:
    ///   - queue: all shards, on connections that may be shared.
    ///   - leases: the same queue on other connections.
    ///   - group: event loops of the connections that nothing else uses: one for the wake tokens of each shard.
    ///   - runner: makes the runner of the jobs, with the host limiter that it asks for permits.
    package init(
        _ configuration: Worker.Configuration,
        name: String,
        queue: ShardedQueue,
        leases: ShardedQueue,
        group: any EventLoopGroup,
        logger: Logger,
        runner: (any FetchLimiting) -> any JobRunning
    ) {
        self.name = name
        self.logger = logger
        var configuration = configuration
        // A fallback coordinator of its own would need another connection; `poll` sends its commands.
        configuration.takeoverDelay = nil
        let hosts = queue.shards.map { shard in
            HostRateLimiter(redis: shard.redis, keys: shard.keys, limits: configuration.hostLimits, logger: logger)
        }
        let limiters = HostLimiters(hosts[0])
        limiters.use(Array(hosts.dropFirst()))
        let parts = WorkerShard.Parts(
            configuration: configuration,
            name: name,
            loop: group.next(),
            leaseGroup: group,
            runner: runner(limiters),
            places: ClaimLoop.places(configuration),
            limiters: limiters,
            isolated: nil,
            statistics: StatisticsRecorder(),
            history: History(file: nil, logger: logger),
            logger: logger
        )
        shards = zip(queue.shards, zip(leases.shards, hosts)).enumerated().map { number, shard in
            WorkerShard(number, parts, queue: shard.0, leases: shard.1.0.redis, limiter: shard.1.1)
        }
        fallbacks = queue.shards.map { shard in
            Leadership(queue: shard, name: name, lease: configuration.lease, isFallback: true)
        }
    }

    /// Works until the signal, and signs off.
    package func run(until signal: ShutdownSignal) async {
        await forEach { shard in await shard.heartbeat.renew() }
        await withTaskGroup(of: Void.self) { group in
            for shard in shards {
                group.addTask { await shard.heartbeat.run() }
                group.addTask { await shard.sweeper.run() }
                group.addTask { await shard.limiter.run() }
            }
            for (shard, fallback) in zip(shards, fallbacks) { group.addTask { await poll(fallback, shard.pace) } }
            await forEach { shard in await shard.run(until: signal) }
            group.cancelAll()
        }
        await forEach { shard in
            do {
                try await shard.queue.release([], worker: name, leaves: true)
            } catch {
                logger.warning("the worker could not sign off; its entry expires", metadata: [LogKey.error: "\(error)"])
            }
        }
    }

    /// Runs the body for all shards at once.
    private func forEach(_ body: @escaping @Sendable (WorkerShard) async -> Void) async {
        await withDiscardingTaskGroup { group in
            for shard in shards { group.addTask { await body(shard) } }
        }
    }

    /// Checks for a leader, as a worker's fallback coordinator does while there is one.
    private func poll(_ fallback: Leadership, _ pace: IdlePace) async {
        await repeating {
            do {
                _ = try await fallback.hasLeader()
            } catch {
                logger.debug("cannot look for a leader", metadata: [LogKey.error: "\(error)"])
            }
            await pace.sleep(Self.pollInterval)
            return .zero
        }
    }
}
