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
        abstract: "Simulate many workers until SIGTERM, and print the latencies from push to start.",
        shouldDisplay: false
    )

    @OptionGroup var redis: RedisOptions

    @Option(name: .long, help: "Number of workers.")
    var workers: Int

    @Option(name: .long, help: "Number of concurrent jobs of each worker.")
    var concurrency: Int

    @Option(name: .long, help: "Number of hosts from which the jobs simulate a fetch.")
    var hosts: Int

    @Option(name: .customLong("render-ms"), help: "Average duration of a job, ms.")
    var renderMilliseconds: Double

    @Option(name: .customLong("open-files"), help: "Number of files that the process must be able to open.")
    var openFiles: Int

    func run() async throws {
        try await reportingFailures {
            try OpenFileLimit.require(openFiles, for: "\(workers) workers")
            let shutdown = ShutdownSignal()
            let latencies = StartLatencies()
            let work = SimulatedWork(mean: renderMilliseconds)
            let fleet = SimulatedWorkers(
                workers,
                concurrency: concurrency,
                hosts: hosts,
                queue: try redis.address(),
                group: MultiThreadedEventLoopGroup(numberOfThreads: 1),
                name: ProcessIdentity.process(),
                logger: LogOptions.logger("megaton.bench", level: .error),
                work: { work.next() },
                onStart: { latencies.add([$0]) }
            )
            try await ProcessSignals.forwarded(to: shutdown) { try await fleet.run(until: shutdown) }
            try Terminal.output(JSONText.line(latencies.histogram))
        }
    }
}
