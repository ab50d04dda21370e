import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine

/// `megaton job`
struct JobCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "job",
        abstract: "Show the state of one job: ready, running, delayed, held, dead or ended. Exits 1 if there is none.",
        discussion: """
            Examples:
              megaton job 4711
              megaton job spring.12 --batch spring --json
            """
    )

    @OptionGroup var redis: RedisOptions

    @Argument(help: "The job's id; for a source of a pack, the id of the pack.")
    var id: String

    @Option(name: .long, help: ArgumentHelp("Batch of the job, if it has one.", valueName: "name"))
    var batch: String?

    @Flag(name: .long, help: "Print one JSON object per line.")
    var json = false

    mutating func validate() throws {
        if !Job.isName(id) {
            throw ValidationError("\"\(id)\" is no id: allowed are texts of \(Job.nameRule)")
        }
        if let batch, !batch.isEmpty, !Job.isName(batch) {
            throw ValidationError("--batch \"\(batch)\" is no name: allowed are texts of \(Job.nameRule)")
        }
    }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                let states = try await queue.states(of: JobKey(batch: batch, id: id))
                if states.isEmpty { throw try await missing(queue) }
                for state in states { try Terminal.output(json ? JSONText.line(state) : Self.text(state)) }
            }
        }
    }

    /// A job that was pushed and not read is not known by its id, and most of those that have ended are not either.
    private func missing(_ queue: ShardedQueue) async throws -> CLIError {
        let status = try await Inspector(queue: queue, caches: []).status()
        let unread = status.intake + status.staged
        let waiting =
            unread == 0
            ? "nor does any job wait to be read"
            : "\(Counted.jobs(unread)) \(unread == 1 ? "waits" : "wait") to be read, and it may be among them"
        return CLIError.notFound("\(Self.lack(of: id, in: batch)), \(waiting). \(outcomePlaces)")
    }

    /// The beginning of the message about an id that no job has.
    ///
    /// - Parameter batch: nil without `--batch`, empty for jobs without a batch.
    static func lack(of id: String, in batch: String?) -> String {
        guard let batch else {
            // Ids that a submission makes are the name of the batch and a number.
            let parts = id.split(separator: ".", omittingEmptySubsequences: false)
            let isMade = parts.count > 1 && parts.last.map { !$0.isEmpty && $0.allSatisfy(\.isNumber) } == true
            let name = parts.dropLast().joined(separator: ".")
            return "give --batch \(isMade && Job.isName(name) ? name : "NAME") if the job has a batch: no job without "
                + "one has the id \"\(id)\" now"
        }
        return "no job\(batch.isEmpty ? "" : " of the batch \"\(batch)\"") has the id \"\(id)\" now"
    }

    /// The places of the outcomes of jobs that have ended, and how to get that of the next one.
    private var outcomePlaces: String {
        if let batch, !batch.isEmpty {
            return "A job that has ended is known by its id only if it is dead, or while its batch has not ended. Its "
                + "outcome is in the list or at the webhook that its \"reply\" names, and megaton batch results "
                + "\(batch) prints those that the batch keeps."
        }
        return "A job without a batch that has ended is known by its id only if it is dead, or for its keyTTL (a day "
            + "by default) if its key was its id. Otherwise its outcome is in the list or at the webhook that its "
            + "\"reply\" names, and nowhere without one: push the next job with its id as its \"key\", or with \"reply\": "
            + "{\"list\": \"KEY\"}, and read its outcome with BLPOP KEY 60."
    }

    private static func text(_ state: JobState) -> String {
        let name = state.batch.map { "\(state.id) (batch \($0))" } ?? state.id
        let attempts = state.attempts.map { ", \(Counted.of($0, "attempt"))" } ?? ""
        let until = state.until.map(date) ?? "unknown"
        let error = state.error.map { ": \($0.code): \(TextColumns.oneLine($0.message))" } ?? ""
        switch state.stage {
        case .ready: return "\(name): ready, priority \(state.priority ?? "unknown")\(attempts)"
        case .running: return "\(name): running on \(state.worker ?? "unknown")\(attempts), lease until \(until)"
        case .delayed: return "\(name): delayed until \(until)\(attempts)"
        case .held: return "\(name): held until \(until) for \(state.host ?? "unknown")\(attempts)"
        case .dead: return "\(name): dead since \(state.died.map(date) ?? "unknown")\(attempts)\(error)"
        case .ended:
            guard let outcome = state.outcome else {
                return "\(name): ended; its outcome is not kept with its id. The list or the webhook of its \"reply\" "
                    + "has it, and megaton batch results \(state.batch ?? "NAME") if the batch keeps outcomes"
            }
            let paths = outcome.outputs.compactMap(\.path).map { " \(TextColumns.oneLine($0))" }.joined()
            return "\(name): \(outcome.status.rawValue), \(Counted.of(outcome.attempts, "attempt"))\(error)\(paths)"
        }
    }

    private static func date(_ seconds: Double) -> String {
        Date(timeIntervalSince1970: seconds).formatted(.iso8601)
    }
}
