import ArgumentParser

/// `megaton dead`
struct DeadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dead",
        abstract: "Look at the jobs that failed for good, and requeue or drop them.",
        discussion: "A requeued job is looked at like a new one and belongs to no batch: the one it died in has ended.",
        subcommands: [DeadListCommand.self, DeadShowCommand.self, DeadRequeueCommand.self, DeadDropCommand.self]
    )
}
