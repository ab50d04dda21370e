import ArgumentParser

/// The command that scripts/chaos runs.
@main
struct ChaosCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "scripts/chaos",
        abstract: "Prove with real processes that the cluster loses nothing.",
        subcommands: [FaultsCommand.self, ScenariosCommand.self],
        defaultSubcommand: FaultsCommand.self
    )
}
