import ArgumentParser
import MegatonCluster
import MegatonCommandLine

/// `megaton batch list`
struct BatchListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "The batches, the newest first. One that has ended is known for seven days."
    )

    @OptionGroup var redis: RedisOptions

    @Option(name: .long, help: "How many to show at the most.")
    var limit = 50

    @Flag(name: .long, help: "One JSON object a line.")
    var json = false

    mutating func validate() throws {
        if !(1...10_000).contains(limit) { throw ValidationError("--limit is 1 to 10000.") }
    }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                let batches = try await queue.batches(limit: limit + 1)
                for batch in batches.prefix(limit) {
                    let report = BatchReport(batch)
                    Terminal.output(json ? try JSONText.line(report) : report.row)
                }
                if batches.isEmpty && !json { Terminal.output("no batches") }
                if batches.count > limit {
                    Terminal.error("megaton: the list ends at the newest \(limit) batches; --limit shows more.")
                }
            }
        }
    }
}
