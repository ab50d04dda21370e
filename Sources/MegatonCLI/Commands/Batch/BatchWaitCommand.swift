import ArgumentParser
import MegatonCluster
import MegatonCommandLine
import MegatonRedis

/// `megaton batch wait`
struct BatchWaitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wait",
        abstract:
            "Wait until all jobs of a batch have ended. Exits 2 if some failed or were cancelled, 75 after --timeout."
    )

    @OptionGroup var redis: RedisOptions

    @Argument(help: "The batch's name.")
    var name: String

    @OptionGroup var timeout: TimeoutOptions

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                if try await BatchReport.of(name, queue).state == "open" {
                    Terminal.error(
                        "megaton: the batch is open: its submitter may push more. If it is gone, megaton batch cancel ends it."
                    )
                }
                let report = try await timeout.wait(orElse: { "the batch \"\(name)\" has not ended" }) {
                    try await ended(queue)
                }
                Terminal.output(try JSONText.pretty(report))
                if report.failed + report.cancelled > 0 { throw ExitCode(2) }
            }
        }
    }

    /// Nil while the batch runs, and while Redis is unreachable: nothing is lost by waiting.
    private func ended(_ queue: JobQueue) async throws -> BatchReport? {
        do {
            let report = try await BatchReport.of(name, queue)
            return report.state == "finished" ? report : nil
        } catch let error as RedisError {
            guard error.isTransient else { throw error }
            return nil
        }
    }
}
