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

    static func main() {
        var rules = ConfigurationRules()
        rules.readsFiles = false
        // The processes that a benchmark starts. Benchmarks must not push jobs to the cluster of a variable.
        let helpers: Set<String> = ["queue-worker", "lock-waiters", "cluster-workers", "idle-workers"]
        rules.applies = { helpers.contains($0) }
        runProgram(rules)
    }
}
