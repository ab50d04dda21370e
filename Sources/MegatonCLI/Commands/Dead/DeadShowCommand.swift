import ArgumentParser
import MegatonCluster

/// `megaton dead show`
struct DeadShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Everything about a dead job, as JSON: reason, attempts, who buried it, when, and the job."
    )

    @OptionGroup var redis: RedisOptions

    @Argument(help: "The job's id.")
    var id: String

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                guard let letter = try await queue.dead(id: id) else {
                    throw Failure.notFound("no dead job has the id \"\(id)\".")
                }
                Terminal.output(try JSONText.pretty(letter))
            }
        }
    }
}
