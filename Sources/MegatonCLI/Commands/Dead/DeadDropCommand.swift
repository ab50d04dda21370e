import ArgumentParser
import MegatonCluster
import MegatonCommandLine

/// `megaton dead drop`
struct DeadDropCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drop",
        abstract: "Forget dead jobs, by id, batch, error code or all."
    )

    @OptionGroup var selection: DeadSelection
    @OptionGroup var redis: RedisOptions

    @Flag(name: .shortAndLong, help: "Do not ask before --all.")
    var yes = false

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                if selection.all && !yes { try await confirm(queue) }
                let (found, done, missing) = try await selection.each(in: queue) { try await queue.drop($0) }
                Terminal.output("\(Counted.of(done, "dead job")) dropped")
                try selection.check(found: found, missing: missing)
            }
        }
    }

    /// Asks for confirmation on a terminal, and refuses without one: a script passes `--yes`.
    private func confirm(_ queue: JobQueue) async throws {
        let count = try await selection.count(in: queue)
        if count == 0 { return }
        let question = "\(Counted.of(count, "dead job"))\(selection.scope) in the queue \"\(redis.queue)\""
        guard Terminal.canAsk else {
            throw CLIError.usage("--all forgets \(question) for good; add --yes to do that.")
        }
        guard Terminal.confirms("megaton: forget \(question) for good?") else {
            throw CLIError.notFound("nothing was dropped.")
        }
    }
}
