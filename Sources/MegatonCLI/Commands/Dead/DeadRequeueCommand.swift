import ArgumentParser
import MegatonCluster
import MegatonCommandLine

/// `megaton dead requeue`
struct DeadRequeueCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "requeue",
        abstract: "Push dead jobs again, by id, batch, error code or all."
    )

    @OptionGroup var selection: DeadSelection
    @OptionGroup var redis: RedisOptions

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                let (found, done, missing) = try await selection.each(in: queue) { try await queue.requeue($0) }
                Terminal.output("\(done) of \(Counted.of(found, "dead job")) requeued")
                if done < found {
                    let words = found - done == 1 ? "1 was no readable job" : "\(found - done) were no readable jobs"
                    Terminal.error("megaton: \(words); megaton dead show has the reasons.")
                }
                try selection.check(found: found, missing: missing)
            }
        }
    }
}
