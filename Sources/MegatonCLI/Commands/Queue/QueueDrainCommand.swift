import ArgumentParser
import MegatonCluster
import MegatonCommandLine

/// `megaton queue drain`
struct QueueDrainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drain",
        abstract: "Take no more jobs in until megaton queue resume. What was taken in goes on to its end.",
        discussion: "What is pushed meanwhile waits in the intake: for an upgrade of the workers, say."
    )

    @OptionGroup var redis: RedisOptions

    @Flag(name: .long, help: "Wait until nothing is ready, running or delayed.")
    var wait = false

    @OptionGroup var timeout: TimeoutOptions

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                try await queue.set(.drain, true)
                var alive = try await queue.alive()
                guard wait else {
                    Terminal.output("draining: \(Counted.jobs(alive)) on the way")
                    return
                }
                try await timeout.wait(orElse: { "\(Counted.jobs(alive)) \(alive == 1 ? "has" : "have") not ended" }) {
                    alive = try await queue.alive()
                    return alive == 0 ? () : nil
                }
                Terminal.output("drained: nothing is ready, running or delayed")
            }
        }
    }
}
