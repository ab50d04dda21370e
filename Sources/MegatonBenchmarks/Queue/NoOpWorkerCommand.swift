import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import NIOPosix

/// `megaton-bench queue-worker`: a worker process of `megaton-bench queue`, which starts it.
struct NoOpWorkerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queue-worker",
        abstract: "End no-op jobs until SIGTERM, and print how long they took from push to start.",
        shouldDisplay: false
    )

    @OptionGroup var redis: RedisOptions

    func run() async throws {
        try await reportingFailures {
            let shutdown = ShutdownSignal()
            let latencies = StartLatencies()
            let worker = NoOpWorker(
                try redis.control(),
                keys: redis.keys,
                group: MultiThreadedEventLoopGroup(numberOfThreads: 1),
                name: Identity.process(),
                logger: LogOptions.logger("megaton.bench", level: .error),
                onClaim: { latencies.add($0) }
            )
            try await ProcessSignals.forwarded(to: shutdown) { try await worker.run(until: shutdown) }
            Terminal.output(try JSONText.line(latencies.histogram))
        }
    }
}
