import ArgumentParser
import MegatonCluster
import MegatonCommandLine

/// The program `megaton-bench`.
@main
struct BenchmarksCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "megaton-bench",
        abstract: "Measures parts of Megaton on this machine.",
        version: Megaton.version,
        subcommands: [
            BenchQueueCommand.self, BenchQueueWorkerCommand.self, BenchPipelineCommand.self, BenchLockCommand.self,
            BenchLockWaitersCommand.self, BenchCacheCommand.self, BenchClusterCommand.self,
            BenchClusterWorkersCommand.self,
        ]
    )

    static func main() async { await runProgram() }
}
