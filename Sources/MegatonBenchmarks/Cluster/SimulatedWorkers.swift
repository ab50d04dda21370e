import Foundation
package import Logging
package import MegatonCluster
import MegatonPipeline
package import NIOCore

/// Many workers in one process that only simulate work, to measure the load of a large fleet on its queue without the
/// machines.
///
/// They send each shard of the control Redis the same commands as real workers, with the exceptions of `BareWorker`.
/// Each has its own connections for wake tokens, as a blocking command occupies a connection; the others are shared.
package struct SimulatedWorkers: Sendable {
    private let count: Int
    private let address: QueueAddress
    private let configuration: Worker.Configuration
    private let name: String
    private let group: any EventLoopGroup
    private let origins: [URL]
    private let work: @Sendable () -> Duration
    private let onStart: @Sendable (String) -> Void
    private let logger: Logger

    /// Connections to each shard for claims and settlements.
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
        queue: QueueAddress,
        group: any EventLoopGroup,
        name: String,
        logger: Logger,
        work: @escaping @Sendable () -> Duration,
        onStart: @escaping @Sendable (String) -> Void
    ) {
        self.count = count
        address = queue
        self.name = name
        self.group = group
        self.logger = logger
        self.work = work
        self.onStart = onStart
        origins = (0..<hosts).compactMap { URL(string: "https://host-\($0).example.org/") }
        var configuration = Worker.Configuration(control: queue.servers[0])
        configuration.furtherControls = Array(queue.servers.dropFirst())
        configuration.keys = queue.keys(0)
        configuration.concurrency = concurrency
        // The cost of permits is to be measured, not the cost of refusals.
        configuration.hostLimits.concurrency = 1 << 30
        self.configuration = configuration
    }

    /// Runs the workers until the signal.
    ///
    /// - Throws: `RedisError` if a shard cannot be reached at the start, or the servers are not those of the queue.
    package func run(until signal: ShutdownSignal) async throws {
        var queues: [ShardedQueue] = []
        defer { for queue in queues { queue.close() } }
        for _ in 0..<min(count, Self.controls) { queues.append(try await queue("control")) }
        let controls = queues
        let leases = try await queue("lease")
        queues.append(leases)
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
    }

    private func simulated(_ number: Int, _ queue: ShardedQueue, _ leases: ShardedQueue) -> BareWorker {
        BareWorker(
            configuration,
            name: "\(name):\(number)",
            queue: queue,
            leases: leases,
            group: group,
            logger: logger
        ) { limiter in
            SimulatedRunner(limiter: limiter, origins: origins, work: work, loop: group.next(), onStart: onStart)
        }
    }

    private func queue(_ role: String) async throws -> ShardedQueue {
        try await ShardedQueue.open(address, role: role, group: group, logger: logger)
    }
}
