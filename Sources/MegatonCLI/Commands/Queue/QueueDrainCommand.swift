import ArgumentParser
import MegatonCluster

/// `megaton queue drain`
struct QueueDrainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drain",
        abstract: "Admit no more jobs until megaton queue resume. What is admitted goes on to its end.",
        discussion: "What is pushed meanwhile waits in the intake: for an upgrade of the workers, say."
    )

    @OptionGroup var redis: RedisOptions

    @Flag(name: .long, help: "Wait until nothing is ready, running or delayed.")
    var wait = false

    @Option(name: .long, help: ArgumentHelp("How long to wait; for ever unless given.", valueName: "seconds"))
    var timeout: Double?

    mutating func validate() throws {
        if let timeout, !(timeout >= 0 && timeout < 1e9) { throw ValidationError("--timeout is a number of seconds.") }
    }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                try await queue.set(.drain, true)
                guard wait else {
                    Terminal.output("draining: \(try await queue.alive()) jobs are on their way")
                    return
                }
                let deadline = timeout.map { ContinuousClock.now + .seconds($0) }
                while true {
                    let alive = try await queue.alive()
                    if alive == 0 { break }
                    if let deadline, ContinuousClock.now >= deadline {
                        throw Failure(code: 75, message: "\(alive) jobs have not ended after \(timeout ?? 0) s.")
                    }
                    try await Task.sleep(for: .milliseconds(250))
                }
                Terminal.output("drained: nothing is ready, running or delayed")
            }
        }
    }
}
