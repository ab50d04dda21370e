import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import MegatonRedis
import NIOPosix

/// `megaton-bench lock-waiters`: a child process of `megaton-bench lock`, which also ends it.
struct LockWaitersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock-waiters",
        abstract: "Wait for the flights of a benchmark until SIGTERM.",
        shouldDisplay: false
    )

    @OptionGroup var redis: RedisOptions

    @Option(name: .long, help: "Name of the benchmark.")
    var name: String

    @Option(name: .long, help: "Number of this process.")
    var process: Int

    @Option(name: .long, help: "Number of waiters.")
    var waiters: Int

    func run() async throws {
        try await reportingFailures {
            let address = try redis.control()
            let (group, logger) = (
                MultiThreadedEventLoopGroup.singleton, LogOptions.logger("megaton.bench", level: .error)
            )
            let lock = InFlightLock(
                cache: RedisDataCache(
                    redis: RedisClient(address, role: "cache", group: group, logger: logger),
                    logger: logger
                ),
                owner: ProcessIdentity.process(),
                group: group,
                logger: logger
            )
            let link = LockRounds(
                name: name,
                redis: RedisClient(address, role: "bench", group: group, logger: logger)
            )
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask { await lock.run() }
                // Loops until the parent process ends it, or until `next` fails because the leader is gone.
                while true { try await wait(for: link.next(process: process), lock, link) }
            }
        }
    }

    private func wait(for round: Int, _ lock: InFlightLock, _ link: LockRounds) async throws {
        let key = link.key(round)
        let flights = await withTaskGroup(of: SingleFlight.Waiter?.self) { tasks in
            for _ in 0..<waiters {
                tasks.addTask {
                    if case .wait(let flight)? = await lock.begin([key]).first { flight } else { nil }
                }
            }
            return await tasks.reduce(into: [SingleFlight.Waiter]()) { if let flight = $1 { $0.append(flight) } }
        }
        try await link.reportWaiting()
        let wakes = await withTaskGroup(of: (woken: Int, served: Int?).self) { tasks in
            for flight in flights { tasks.addTask { await wait(for: flight, lock) } }
            return await tasks.reduce(into: LockRounds.Wakes(woken: [], served: [])) { all, one in
                all.woken.append(one.woken)
                if let served = one.served { all.served.append(served) }
            }
        }
        try await link.report(wakes)
    }

    /// - Returns: the times at which the waiter was woken and at which it had the entry.
    private func wait(for flight: SingleFlight.Waiter, _ lock: InFlightLock) async -> (woken: Int, served: Int?) {
        await lock.wait(for: flight)
        let woken = NoOpJob.now()
        guard case .hit? = await lock.begin([flight.key], after: [flight]).first else { return (woken, nil) }
        return (woken, NoOpJob.now())
    }
}
