import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonRedis
import NIOPosix

/// `megaton-bench queue`
struct QueueBenchmarkCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queue",
        abstract: "Measure the queue itself: jobs that do nothing, on a private Redis.",
        discussion: """
            First worker processes process a backlog: jobs per second, and bytes of Redis for each waiting job. Then \
            jobs arrive at a steady rate: the latency from push to start.
            """
    )

    @Option(name: .long, help: "Number of jobs in the backlog.")
    var jobs = 300_000

    @Option(name: .long, help: "Number of worker processes.")
    var workers = 2

    @Option(name: .long, help: "Size of the JSON of a job, bytes.")
    var bytes = 200

    @Option(name: .long, help: "Jobs per second in the steady part; by default a quarter of the measured rate.")
    var rate: Int?

    @Option(name: .long, help: "Duration of the steady part, seconds.")
    var seconds = 5

    @Flag(name: .long, help: "Print one JSON object instead of the table.")
    var json = false

    mutating func validate() throws {
        try OptionRange.check("--jobs", jobs, 1000...10_000_000)
        try OptionRange.check("--workers", workers, 1...64)
        try OptionRange.check("--bytes", bytes, 100...100_000)
        try OptionRange.check("--rate", rate, 1...1_000_000)
        try OptionRange.check("--seconds", seconds, 1...600)
    }

    func run() async throws {
        try await reportingFailures {
            let report = try await EmbeddedRedis(size: 4 << 30, isTemporary: true).run { address in
                try await QueueBenchmark(
                    address: address,
                    jobs: jobs,
                    workers: workers,
                    bytes: bytes,
                    rate: rate,
                    seconds: seconds
                ).run()
            }
            if json { try Terminal.output(JSONText.pretty(report)) } else { try Terminal.output(report.text) }
        }
    }
}

/// `megaton-bench queue-worker`: a worker process of `megaton-bench queue`, which starts it.
struct NoOpWorkerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queue-worker",
        abstract: "Process jobs that do nothing until SIGTERM, and print their latencies from push to start.",
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
                name: ProcessIdentity.process(),
                logger: LogOptions.logger("megaton.bench", level: .error),
                onClaim: { latencies.add($0) }
            )
            try await ProcessSignals.forwarded(to: shutdown) { try await worker.run(until: shutdown) }
            try Terminal.output(JSONText.line(latencies.histogram))
        }
    }
}
