import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import NIOPosix

/// `megaton-bench cluster-workers`: a child process of `megaton-bench cluster`.
struct SimulatedWorkersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster-workers",
        abstract: "Pretend to be many workers until SIGTERM, and print how long jobs took from push to start.",
        shouldDisplay: false
    )

    @OptionGroup var redis: RedisOptions

    @Option(name: .long, help: "How many.")
    var workers: Int

    @Option(name: .long, help: "Jobs that each has in hand at a time.")
    var concurrency: Int

    @Option(name: .long, help: "Hosts whose gates the jobs pass.")
    var hosts: Int

    @Option(name: .customLong("render-ms"), help: "What a job takes, ms.")
    var renderMilliseconds: Double

    func run() async throws {
        try await reportingFailures {
            let shutdown = ShutdownSignal()
            let latencies = StartLatencies()
            let work = SimulatedWork(mean: renderMilliseconds)
            let fleet = SimulatedWorkers(
                workers,
                concurrency: concurrency,
                hosts: hosts,
                redis: try redis.control(),
                keys: redis.keys,
                group: MultiThreadedEventLoopGroup(numberOfThreads: 1),
                name: ProcessIdentity.process(),
                logger: LogOptions.logger("megaton.bench", level: .error),
                work: { work.next() },
                onStart: { latencies.add([$0]) }
            )
            try await ProcessSignals.forwarded(to: shutdown) { await fleet.run(until: shutdown) }
            Terminal.output(try JSONText.line(latencies.histogram))
        }
    }
}
