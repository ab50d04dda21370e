import ArgumentParser
import MegatonCluster
import MegatonRedis

/// `megaton batch wait`
struct BatchWaitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wait",
        abstract: "Wait until all jobs of a batch have ended. Exits 2 if some failed, 75 after --timeout."
    )

    @OptionGroup var redis: RedisOptions

    @Argument(help: "The batch's name.")
    var name: String

    @Option(name: .long, help: ArgumentHelp("How long to wait; for ever unless given.", valueName: "seconds"))
    var timeout: Double?

    mutating func validate() throws {
        if let timeout, !(timeout >= 0 && timeout < 1e9) { throw ValidationError("--timeout is a number of seconds.") }
    }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                let deadline = timeout.map { ContinuousClock.now + .seconds($0) }
                while true {
                    if let report = try await ended(queue) {
                        Terminal.output(try JSONText.pretty(report))
                        if report.failed > 0 { throw ExitCode(2) }
                        return
                    }
                    if let deadline, ContinuousClock.now >= deadline {
                        throw Failure(code: 75, message: "the batch \"\(name)\" has not ended after \(timeout ?? 0) s.")
                    }
                    try await Task.sleep(for: .milliseconds(250))
                }
            }
        }
    }

    /// Nil while it runs, and while Redis is away: nothing is lost by waiting.
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
