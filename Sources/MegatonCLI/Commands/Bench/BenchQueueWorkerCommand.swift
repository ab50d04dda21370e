import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import NIOPosix
import Synchronization

/// `megaton bench queue-worker`: a worker process of `megaton bench queue`, which starts it.
struct BenchQueueWorkerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queue-worker",
        abstract: "End no-op jobs until SIGTERM, and print how long they took from push to start.",
        shouldDisplay: false
    )

    @OptionGroup var redis: RedisOptions

    private final class Latencies: Sendable {
        let histogram = Mutex(LatencyHistogram())

        /// The ids say when their jobs were pushed.
        func add(_ ids: [String]) {
            let now = BenchJob.now()
            histogram.withLock { histogram in
                for id in ids {
                    if let pushed = BenchJob.pushed(id) { histogram.add(now - pushed) }
                }
            }
        }
    }

    func run() async throws {
        try await reportingFailures {
            let shutdown = ShutdownSignal()
            let latencies = Latencies()
            let worker = NoOpWorker(
                try redis.control(),
                keys: redis.keys,
                group: MultiThreadedEventLoopGroup(numberOfThreads: 1),
                name: Identity.process(),
                logger: LogOptions.logger("megaton.bench", level: .error),
                onClaim: { latencies.add($0) }
            )
            try await ProcessSignals.forwarded(to: shutdown) { try await worker.run(until: shutdown) }
            Terminal.output(try JSONText.line(latencies.histogram.withLock { $0 }))
        }
    }
}
