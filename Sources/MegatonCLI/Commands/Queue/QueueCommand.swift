import ArgumentParser

/// `megaton queue`
struct QueueCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queue",
        abstract: "Pause, drain or resume the whole queue.",
        subcommands: [QueuePauseCommand.self, QueueDrainCommand.self, QueueResumeCommand.self]
    )
}
