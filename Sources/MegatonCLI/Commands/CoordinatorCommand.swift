import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// `megaton coordinator`
struct CoordinatorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "coordinator",
        abstract: "Admit jobs until SIGTERM. Several coordinators may run: one leads, the others stand by.",
        discussion: RedisOptions.environmentHelp
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var log: LogOptions
    @OptionGroup var start: StartOptions

    @Option(name: .long, help: "Maximum number of admitted jobs; the others wait in the intake.")
    var window = 16_384

    @Option(
        name: .long,
        help: ArgumentHelp(
            "JSON file with named lists of renditions: {\"web\": [{\"name\": \"small\", \"width\": 256, …}]}.",
            valueName: "file"
        )
    )
    var presets: String?

    mutating func validate() throws {
        if presets?.isEmpty == true { throw ValidationError("--presets is empty; it must name a file.") }
        try OptionRange.check("--window", window, 1...1_000_000)
    }

    func run() async throws {
        try await reportingFailures {
            let shutdown = ShutdownSignal()
            var configuration = Coordinator.Configuration()
            configuration.keys = redis.keys
            configuration.window = window
            configuration.presets = try loadPresets()
            let logger = log.logger("megaton.coordinator")
            let coordinator = Coordinator(configuration, redis: try redis.control(), logger: logger)
            try await ProcessSignals.forwarded(to: shutdown) {
                try await start.runner(until: shutdown, logger: logger).run(
                    coordinator,
                    isReady: { coordinator.isReady }
                ) {
                    try await coordinator.start(waitingForRedis: $0)
                }
            }
        }
    }

    private func loadPresets() throws -> [String: [Rendition]] {
        guard let presets else { return [:] }
        do {
            return try JSONDecoder().decode(
                [String: [Rendition]].self,
                from: Data(contentsOf: URL(fileURLWithPath: presets))
            )
        } catch {
            throw CLIError.usage(
                FieldProblem.sentence("--presets \(presets) cannot be read: \(CLIError.reason(error))")
            )
        }
    }
}
