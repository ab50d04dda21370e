import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import MegatonServer

/// `megaton coordinator`
struct CoordinatorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "coordinator",
        abstract: "Admit jobs until SIGTERM. Several coordinators may run: one leads, the others stand by.",
        discussion: """
            Examples:
              megaton coordinator --redis redis://127.0.0.1:6479
              megaton coordinator --presets presets.json --health 127.0.0.1:8091
              megaton coordinator --webhook-key webhook.key --keep-batches 30

            It validates the jobs that clients push, and hands them to the workers, a window of them at a time.

            \(RedisOptions.environmentHelp)
            """
    )

    @OptionGroup(title: "Redis") var redis: RedisOptions
    @OptionGroup(title: "Log") var log: LogOptions
    @OptionGroup(title: "Start and Health") var start: StartOptions
    @OptionGroup(title: "Webhooks") var webhooks: WebhookOptions

    @Option(name: .long, help: "Maximum number of admitted jobs, in each shard; the others wait in the intake.")
    var window = 16_384

    @Option(
        name: .long,
        help: ArgumentHelp(
            "JSON file with named lists of renditions: {\"web\": [{\"name\": \"small\", \"width\": 256, …}]}.",
            valueName: "file"
        ),
        completion: .file()
    )
    var presets: String?

    @Option(
        name: .customLong("keep-batches"),
        help: ArgumentHelp(
            "How long batches and their outcomes are kept after their end; at least 0.01.",
            valueName: "days"
        )
    )
    var keepBatches = 7.0

    @Option(
        name: .customLong("keep-dead"),
        help: ArgumentHelp("How long dead jobs are kept; at least 0.01.", valueName: "days")
    )
    var keepDead = 30.0

    @Option(
        name: .customLong("dead-limit"),
        help: ArgumentHelp(
            "Memory for dead jobs; the oldest are deleted. By default 32, or a sixteenth of Redis' maxmemory.",
            valueName: "MiB"
        )
    )
    var deadLimit: Int?

    @Option(
        name: .customLong("outcome-limit"),
        help: ArgumentHelp(
            "Memory for outcomes that no reader has received; those of the batches that ended first are deleted. By "
                + "default 1024, or a quarter of Redis' maxmemory.",
            valueName: "MiB"
        )
    )
    var outcomeLimit: Int?

    mutating func validate() throws {
        try OptionRange.check("--keep-batches", keepBatches, 0.01...3650, " days")
        try OptionRange.check("--keep-dead", keepDead, 0.01...3650, " days")
        try OptionRange.check("--dead-limit", deadLimit, 1...1_048_576, " MiB")
        try OptionRange.check("--outcome-limit", outcomeLimit, 1...1_048_576, " MiB")
        if presets?.isEmpty == true { throw ValidationError("--presets is empty; it must name a file.") }
        try OptionRange.check("--window", window, 1...1_000_000)
    }

    func run() async throws {
        try await reportingFailures {
            let shutdown = ShutdownSignal()
            var configuration = Coordinator.Configuration()
            configuration.keys = redis.keys
            configuration.window = window
            configuration.presets = try presets.map { try PresetFile.load($0) } ?? [:]
            configuration.batchRetention = .seconds(keepBatches * 24 * 3600)
            configuration.retention.deadLetters = .seconds(keepDead * 24 * 3600)
            configuration.retention.deadLetterBytes = deadLimit.map { $0 * 1024 * 1024 }
            configuration.retention.outcomeBytes = outcomeLimit.map { $0 * 1024 * 1024 }
            configuration.caches = try redis.caches()
            let logger = log.logger("megaton.coordinator")
            let runner = start.runner(
                as: "coordinator",
                counting: MetricCatalog.ofCoordinators,
                until: shutdown,
                logger: logger
            )
            configuration.webhooks = try webhooks.configuration(logger: logger)
            let controls = try redis.controls()
            configuration.furtherControls = Array(controls.dropFirst())
            let coordinator = Coordinator(configuration, redis: controls[0], logger: logger)
            let cluster = ClusterMetricsReader(
                { Inspector(queue: coordinator.shards, caches: []) },
                logger: logger
            )
            try await ProcessSignals.forwarded(to: shutdown) {
                try await runner.run(
                    coordinator,
                    isReady: { coordinator.isReady },
                    metrics: { await cluster.families() },
                    isHung: { coordinator.isHung },
                    connect: { try await coordinator.start(waitingForRedis: $0) }
                )
            }
        }
    }
}
