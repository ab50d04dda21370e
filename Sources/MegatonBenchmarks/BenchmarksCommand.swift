import ArgumentParser

/// `megaton bench`
struct BenchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench",
        abstract: "Measure parts of Megaton on this machine.",
        subcommands: [
            BenchQueueCommand.self, BenchQueueWorkerCommand.self, BenchPipelineCommand.self, BenchLockCommand.self,
            BenchLockWaitersCommand.self, BenchCacheCommand.self, BenchClusterCommand.self,
            BenchClusterWorkersCommand.self,
        ]
    )
}
