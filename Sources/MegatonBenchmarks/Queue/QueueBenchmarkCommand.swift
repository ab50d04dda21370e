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
        abstract: "Measure the queue itself: jobs that do nothing, on a private Redis or on --redis.",
        discussion: """
            First worker processes process a backlog: jobs per second, and bytes of Redis for each waiting job. Then \
            jobs arrive at a steady rate: the latency from push to start. Of a queue with several shards the figures \
            are sums, and each Redis has a line of its own.

            Example, with two shards on two Redis:
              megaton queue reshard 2 --queue bench --redis redis://10.0.0.1 --redis redis://10.0.0.2
              megaton-bench queue --redis redis://10.0.0.1 --redis redis://10.0.0.2
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

    @OptionGroup var target: BenchmarkRedisOptions

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
            let report = try await target.run { queue in
                try await QueueBenchmark(
                    target: queue,
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
            let logger = LogOptions.logger("megaton.bench", level: .error)
            let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
            let worker = NoOpWorker(
                try await ShardedQueue.open(try redis.address(), role: "noop", group: group, logger: logger),
                group: group,
                name: ProcessIdentity.process(),
                logger: logger,
                onClaim: { latencies.add($0) }
            )
            try await ProcessSignals.forwarded(to: shutdown) { try await worker.run(until: shutdown) }
            try Terminal.output(JSONText.line(latencies.histogram))
        }
    }
}
