import ArgumentParser
import MegatonCluster

/// `megaton dead drop`
struct DeadDropCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drop",
        abstract: "Forget dead jobs, by id, batch, error code or all."
    )

    @OptionGroup var selection: DeadSelection
    @OptionGroup var redis: RedisOptions

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                let (found, done) = try await selection.each(in: queue) { try await queue.drop($0) }
                Terminal.output("\(done) dead jobs dropped")
                if !selection.ids.isEmpty && found < Set(selection.ids).count {
                    throw Failure.notFound("\(Set(selection.ids).count - found) of the ids are not dead.")
                }
            }
        }
    }
}
