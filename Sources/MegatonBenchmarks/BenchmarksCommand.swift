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
            QueueBenchmarkCommand.self, NoOpWorkerCommand.self, PipelineBenchmarkCommand.self,
            LockBenchmarkCommand.self,
            LockWaitersCommand.self, CacheBenchmarkCommand.self, ClusterBenchmarkCommand.self,
            SimulatedWorkersCommand.self, IdleWorkersCommand.self,
        ]
    )

    static func main() { runProgram() }
}
