import ArgumentParser
import MegatonCluster
import MegatonCommandLine

/// `megaton queue resume`
struct QueueResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Undo megaton queue pause and megaton queue drain."
    )

    @OptionGroup var redis: RedisOptions

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                for brake in JobQueue.Brake.allCases { try await queue.set(brake, false) }
                Terminal.output("resumed")
            }
        }
    }
}
