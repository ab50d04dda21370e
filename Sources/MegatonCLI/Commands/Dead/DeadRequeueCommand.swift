import ArgumentParser
import MegatonCluster

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
                let (found, done) = try await selection.each(in: queue) { try await queue.requeue($0) }
                Terminal.output("\(done) of \(found) dead jobs requeued")
                if done < found {
                    Terminal.error("megaton: \(found - done) were no readable jobs; megaton dead show tells more.")
                }
                try selection.check(found: found)
            }
        }
    }
}
