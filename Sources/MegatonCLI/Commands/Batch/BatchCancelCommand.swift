import ArgumentParser
import MegatonCluster
import MegatonCommandLine

/// `megaton batch cancel`
struct BatchCancelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract: "Stop a batch: what has not begun is dropped, what runs is stopped when its worker renews its leases."
    )

    @OptionGroup var redis: RedisOptions

    @Argument(help: "The batch's name.")
    var name: String

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                _ = try await BatchReport.of(name, queue)
                try await queue.cancel(batch: name)
                Terminal.output(try await BatchReport.of(name, queue).row)
            }
        }
    }
}
