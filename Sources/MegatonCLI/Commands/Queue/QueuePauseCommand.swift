import ArgumentParser
import MegatonCluster
import MegatonCommandLine

/// `megaton queue pause`
struct QueuePauseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Begin no more jobs until megaton queue resume. What runs goes on to its end."
    )

    @OptionGroup var redis: RedisOptions

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                try await queue.set(.paused, true)
                Terminal.output("paused: no job begins until megaton queue resume")
            }
        }
    }
}
