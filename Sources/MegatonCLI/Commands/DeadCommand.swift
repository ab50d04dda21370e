import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine

/// `megaton dead`
struct DeadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dead",
        abstract: "List the jobs that failed for good, and show, requeue or drop them.",
        discussion:
            "A requeued job is validated like a new one and does not count in its batch, which may have ended. If it "
            + "fails again, it is listed under that batch.",
        subcommands: [DeadListCommand.self, DeadShowCommand.self, DeadRequeueCommand.self, DeadDropCommand.self]
    )
}

/// `megaton dead list`
struct DeadListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the dead jobs, the oldest first.",
        discussion: """
            Examples:
              megaton dead list
              megaton dead list --batch spring --error not_found --json
            """
    )

    @OptionGroup var redis: RedisOptions

    @Option(name: .long, help: ArgumentHelp("Only the jobs of this batch.", valueName: "name"))
    var batch: String?

    @Option(name: .long, help: ArgumentHelp("Only the jobs with this error code.", valueName: "code"))
    var error: String?

    @Option(name: .long, help: "Maximum number of jobs to show.")
    var limit = 100

    @Flag(name: .long, help: "Print one JSON object per line.")
    var json = false

    mutating func validate() throws {
        try OptionRange.check("--limit", limit, 1...100_000)
    }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                var (shown, offset, hasMore) = (0, 0, false)
                while !hasMore {
                    let page = try await queue.deadLetters(offset: offset, limit: 50)
                    if page.isEmpty { break }
                    offset += page.count
                    for letter in page where letter.matches(batch: batch, error: error) {
                        hasMore = shown == limit
                        if hasMore { break }
                        shown += 1
                        let line = json ? try JSONText.line(letter) : Self.row(letter)
                        // Standard output is closed: `head` has read enough.
                        if try !Terminal.output(line) { return }
                    }
                }
                if shown == 0 && !json { try Terminal.output("no dead jobs") }
                let dropped = try await queue.droppedDeadLetters()
                if dropped > 0 {
                    Terminal.error(
                        "megaton: \(Counted.of(dropped, "older dead job")) \(dropped == 1 ? "was" : "were") deleted, "
                            + "after --keep-dead of the coordinator or to keep within --dead-limit."
                    )
                }
                if hasMore {
                    let all = batch == nil && error == nil ? " of \(try await queue.deadCount())" : ""
                    Terminal.error("megaton: the list ends at \(shown)\(all) dead jobs; --limit shows more.")
                }
            }
        }
    }

    private static func row(_ letter: DeadLetter) -> String {
        let time = Date(timeIntervalSince1970: letter.died).formatted(.iso8601)
        let batch = letter.batch.map { " (batch \($0))" } ?? ""
        // A terminal shows the beginning; a file or a pipe gets all of it, in one line.
        let message = TextColumns.oneLine(letter.content.message)
        let isCut = isatty(STDOUT_FILENO) == 1 && message.count > 120
        let shown = isCut ? message.prefix(119) + "…" : message[...]
        return "\(time)  \(letter.id)\(batch)  \(letter.content.code)  \(shown)"
    }
}

/// `megaton dead show`
struct DeadShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show a dead job as JSON: error, attempts, worker, time of death, and the job itself.",
        discussion: """
            Examples:
              megaton dead show 4711
              megaton dead show spring.12 --batch spring
            """
    )

    @OptionGroup var redis: RedisOptions

    @Argument(help: "The job's id.")
    var id: String

    @Option(
        name: .long,
        help: ArgumentHelp("Batch of the job, if several batches have the id (\"\" for none).", valueName: "name")
    )
    var batch: String?

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                let letters = try await DeadSelection.letters(of: id, batch: batch, in: queue)
                if letters.isEmpty {
                    throw CLIError.notFound("no dead job\(DeadSelection.phrase(batch)) has the id \"\(id)\".")
                }
                for letter in letters { try Terminal.output(Self.text(letter)) }
            }
        }
    }

    static func text(_ letter: DeadLetter) throws -> String {
        JSONText.escaped(String(decoding: try letter.describedJSON(.prettyPrinted), as: UTF8.self))
    }
}

/// `megaton dead requeue`
struct DeadRequeueCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "requeue",
        abstract: "Push dead jobs again, by id, batch, error code or all. Exits 1 if none could be.",
        discussion: """
            Examples:
              megaton dead requeue 4711 4712
              megaton dead requeue --batch spring --error timed_out
            """
    )

    @OptionGroup var selection: DeadSelection
    @OptionGroup var redis: RedisOptions

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                let (found, done, missing) = try await selection.each(in: queue) { try await queue.requeue($0) }
                try Terminal.output("\(done) of \(Counted.of(found, "dead job")) requeued")
                if done < found {
                    let words = Counted.of(found - done, "dead job")
                    Terminal.error(
                        "megaton: \(words) cannot be requeued: invalid, no longer dead, or longer than 1 MiB. megaton "
                            + "dead show ID has the reason and the job, to be submitted again in another form."
                    )
                }
                try selection.check(found: found, missing: missing)
                if done == 0 { throw ExitCode(1) }
            }
        }
    }
}

/// `megaton dead drop`
struct DeadDropCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drop",
        abstract: "Delete dead jobs, by id, batch, error code or all.",
        discussion: """
            Examples:
              megaton dead drop --batch spring --error not_found
              megaton dead drop --all --yes
            """
    )

    @OptionGroup var selection: DeadSelection
    @OptionGroup var redis: RedisOptions

    @Flag(name: .shortAndLong, help: "Do not ask for confirmation of --all.")
    var yes = false

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                // Jobs that die while the question is open have not been counted.
                let time = try await queue.now()
                if selection.all && !yes { try await confirm(queue) }
                let (found, done, missing) = try await selection.each(in: queue, until: time) {
                    try await queue.drop($0)
                }
                try Terminal.output("\(Counted.of(done, "dead job")) dropped")
                try selection.check(found: found, missing: missing)
            }
        }
    }

    /// Asks for confirmation on a terminal, and refuses without one: a script passes `--yes`.
    private func confirm(_ queue: ShardedQueue) async throws {
        let count = try await selection.count(in: queue)
        if count == 0 { return }
        let question = "\(Counted.of(count, "dead job"))\(selection.scope) in the queue \"\(redis.queue)\""
        guard Terminal.canAsk else {
            throw CLIError.usage("--all deletes \(question) for good; add --yes to confirm.")
        }
        guard Terminal.confirms("megaton: delete \(question) for good?") else {
            throw CLIError.notFound("nothing was dropped.")
        }
    }
}
