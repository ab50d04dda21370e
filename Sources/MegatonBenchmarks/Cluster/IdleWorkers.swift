import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonRedis
import NIOCore

/// Many real workers in one process that have no jobs, to measure the load of an idle fleet.
///
/// Nothing of them is imitated: each is a `Worker` with its own connections, pipeline, fallback coordinator and checks.
/// They share the event loops of the process, and each has one render thread.
struct IdleWorkers: Sendable {
    let count: Int
    let concurrency: Int
    let address: QueueAddress
    let caches: [RedisConfiguration]
    let group: any EventLoopGroup
    let leaseGroup: any EventLoopGroup
    let logger: Logger

    /// Connections of a worker to each shard: control, leases, wake tokens and fallback coordinator.
    static let connectionsOfShard = 4
    /// Connections of a worker to each cache Redis: commands and subscriptions.
    static let connectionsOfCache = 2
    /// Pause between the starts of two workers: their timers must not all be due at once.
    private static let pause: Duration = .milliseconds(10)
    /// Time limit for Redis to accept the connection of a worker: many connect at once.
    private static let startLimit: Duration = .seconds(30)

    /// Runs the workers until the signal.
    ///
    /// - Throws: the error of the first worker that could not start.
    func run(until signal: ShutdownSignal) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<count {
                group.addTask {
                    try await Task.sleep(for: Self.pause * number)
                    if signal.level > .none { return }
                    let worker = try worker(number)
                    do {
                        try await worker.start(waitingForRedis: Self.startLimit)
                    } catch {
                        // The others must end too, so that the process reports this.
                        signal.raise(to: .abort)
                        throw error
                    }
                    await worker.run(until: signal)
                }
            }
            try await group.waitForAll()
        }
    }

    private func worker(_ number: Int) throws -> Worker {
        var configuration = Worker.Configuration(control: address.servers[0])
        configuration.furtherControls = Array(address.servers.dropFirst())
        configuration.keys = address.keys(0)
        configuration.caches = caches
        configuration.concurrency = concurrency
        configuration.renderConcurrency = 1
        return try Worker(
            configuration,
            name: "\(ProcessIdentity.process()):\(number)",
            group: group,
            leaseGroup: leaseGroup,
            logger: logger,
            onHungRender: {}
        )
    }
}
