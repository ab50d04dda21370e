import ArgumentParser
import MegatonCluster
import MegatonCommandLine

/// The program `megaton`.
@main
struct MegatonCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "megaton",
        abstract:
            "Makes thumbnails by the million: fetches, caches, decodes, resizes and stores images on many workers.",
        version: Megaton.version,
        subcommands: [
            RunCommand.self, CoordinatorCommand.self, WorkerCommand.self, SubmitCommand.self, StatusCommand.self,
            StatsCommand.self, CacheCommand.self, JobCommand.self, BatchCommand.self, DeadCommand.self,
            QueueCommand.self, ReportCommand.self, DoctorCommand.self, ExplainCommand.self,
        ]
    )

    static func main() { runProgram(.program) }
}
