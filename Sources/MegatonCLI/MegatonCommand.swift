import ArgumentParser
import Foundation
import MegatonCluster

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
            StatsCommand.self, CacheCommand.self, BatchCommand.self, DeadCommand.self, QueueCommand.self,
            DoctorCommand.self,
            BenchCommand.self,
        ]
    )

    static func main() async {
        // A peer that closes its end is an error of that write, not of the process.
        signal(SIGPIPE, SIG_IGN)
        await main(nil)
    }
}
