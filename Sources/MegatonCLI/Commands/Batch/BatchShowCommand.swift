import ArgumentParser
import MegatonCluster
import MegatonCommandLine

/// `megaton batch show`
struct BatchShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "show", abstract: "How far a batch is, as JSON.")

    @OptionGroup var redis: RedisOptions

    @Argument(help: "The batch's name.")
    var name: String

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                Terminal.output(try JSONText.pretty(try await BatchReport.of(name, queue)))
            }
        }
    }
}

extension BatchReport {
    /// - Throws: `CLIError` if there is no batch of this name.
    static func of(_ name: String, _ queue: JobQueue) async throws -> BatchReport {
        let counters = try await BatchMonitor(queue: queue, batch: name).counters()
        guard counters.isKnown else { throw CLIError.notFound("there is no batch \"\(name)\".") }
        return BatchReport(BatchSummary(name: name, counters: counters))
    }
}
