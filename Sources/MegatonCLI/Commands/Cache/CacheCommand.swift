import ArgumentParser

/// `megaton cache`
struct CacheCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cache",
        abstract: "Change what the shared cache remembers.",
        subcommands: [ForgetFailuresCommand.self]
    )
}
