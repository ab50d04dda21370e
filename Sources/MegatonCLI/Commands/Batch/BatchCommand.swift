import ArgumentParser

/// `megaton batch`
struct BatchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "batch",
        abstract: "Look at batches, wait for one, or cancel it.",
        subcommands: [
            BatchListCommand.self, BatchShowCommand.self, BatchWaitCommand.self, BatchCancelCommand.self,
        ]
    )
}
