import Foundation
package import Logging
package import MegatonCluster
import MegatonPipeline
package import MegatonRedis
package import NIOCore

/// Many workers in one process that only simulate work, to measure the load of a large fleet on its queue without the
/// machines.
///
/// They send the control Redis the same commands as real workers, except for the statistics, which real workers flush
/// every few seconds. Each has its own connection for wake tokens, as a blocking command occupies a connection; the
/// others are shared.
package struct SimulatedWorkers: Sendable {
    private let count: Int
    private let configuration: Worker.Configuration
    private let name: String
    private let group: any EventLoopGroup
    private let origins: [URL]
    private let work: @Sendable () -> Duration
    private let onStart: @Sendable (String) -> Void
    private let logger: Logger

    /// Connections for claims and settlements.
    private static let controls = 4
    /// Time within which the workers start, one after the other, so that they do not all renew and sweep at once.
    private static let spread: Duration = .seconds(1)

    /// - Parameters:
    ///   - concurrency: jobs that each worker holds at a time.
    ///   - hosts: number of hosts from which jobs simulate a fetch, with a permit of the host limiter; 0 requests no
    ///     permits.
    ///   - name: name of the process, `host:pid:random`.
    ///   - work: returns the duration of the next job.
    ///   - onStart: receives the id of each job that starts; must not block.
    package init(
        _ count: Int,
        concurrency: Int,
        hosts: Int,
        redis: RedisConfiguration,
        keys: QueueKeys,
        group: any EventLoopGroup,
        name: String,
        logger: Logger,
        work: @escaping @Sendable () -> Duration,
        onStart: @escaping @Sendable (String) -> Void
    ) {
        self.count = count
        self.name = name
        self.group = group
        self.logger = logger
        self.work = work
        self.onStart = onStart
        origins = (0..<hosts).compactMap { URL(string: "https://host-\($0).example.org/") }
        var configuration = Worker.Configuration(control: redis)
        configuration.keys = keys
        configuration.concurrency = concurrency
        // The cost of permits is to be measured, not the cost of refusals.
        configuration.hostLimits.concurrency = 1 << 30
        self.configuration = configuration
    }

    /// Runs the workers until the signal.
    package func run(until signal: ShutdownSignal) async {
        let controls = (0..<min(count, Self.controls)).map { _ in queue("control") }
        let leases = queue("lease")
        await withTaskGroup(of: Void.self) { workers in
            for number in 0..<count {
                let worker = simulated(number, controls[number % controls.count], leases)
                workers.addTask {
                    // Cancelled: the worker ends as soon as it starts.
                    try? await Task.sleep(for: Self.spread * number / count)
                    await worker.run(until: signal)
                }
            }
        }
        for queue in controls + [leases] { queue.close() }
    }

    private func simulated(_ number: Int, _ queue: JobQueue, _ leases: JobQueue) -> BareWorker {
        let limiter = HostRateLimiter(
            redis: queue.redis,
            keys: queue.keys,
            limits: configuration.hostLimits,
            logger: logger
        )
        return BareWorker(
            configuration,
            name: "\(name):\(number)",
            queue: queue,
            leases: leases,
            wake: client("wake"),
            limiter: limiter,
            runner: SimulatedRunner(limiter: limiter, origins: origins, work: work, onStart: onStart),
            logger: logger
        )
    }

    private func queue(_ role: String) -> JobQueue { JobQueue(client(role), keys: configuration.keys) }

    private func client(_ role: String) -> RedisClient {
        RedisClient(configuration.control, role: role, group: group, logger: logger)
    }
}
