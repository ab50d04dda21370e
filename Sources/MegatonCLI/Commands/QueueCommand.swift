import ArgumentParser
import MegatonCluster
import MegatonCommandLine
import MegatonCore

/// `megaton queue`
struct QueueCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queue",
        abstract: "Pause, drain or resume the whole queue, or divide it into shards.",
        subcommands: [
            QueuePauseCommand.self, QueueDrainCommand.self, QueueResumeCommand.self, QueueReshardCommand.self,
        ]
    )

    /// Prints the state of a queue that was changed. If that is impossible, the error has it: the change is made.
    static func report(_ state: String) throws {
        do throws(CLIError) {
            try Terminal.output(state)
        } catch {
            throw CLIError.output("\(error.message) The queue was changed all the same: \(state).")
        }
    }
}

/// `megaton queue pause`
struct QueuePauseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Start no more jobs until megaton queue resume. Running jobs continue.",
        discussion: """
            Examples:
              megaton queue pause
            """
    )

    @OptionGroup var redis: RedisOptions

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                try await queue.set(.paused, to: true)
                try QueueCommand.report("paused: no job starts until megaton queue resume")
            }
        }
    }
}

/// `megaton queue drain`
struct QueueDrainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drain",
        abstract: "Admit no more jobs until megaton queue resume. Admitted jobs continue.",
        discussion: """
            Examples:
              megaton queue drain --wait --timeout 600

            Jobs that are pushed meanwhile wait in the intake, for example during an upgrade of the workers.
            """
    )

    @OptionGroup var redis: RedisOptions

    @Flag(name: .long, help: "Wait until no job is staged, ready, running, delayed or held.")
    var wait = false

    /// Seconds until the last delayed job begins from which that is reported: retries come sooner.
    private static let shortWait = 60.0

    @OptionGroup var timeout: TimeoutOptions

    mutating func validate() throws {
        if timeout.timeout != nil && !wait && !OptionOrigins.isConfigured("--timeout") {
            throw ValidationError("--timeout needs --wait.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                try await queue.set(.drain, to: true)
                var alive = try await queue.alive()
                guard wait else {
                    try QueueCommand.report("draining: \(Counted.of(alive, "admitted job")) left")
                    return
                }
                let status = alive > 0 ? try await Inspector(queue: queue, caches: []).status() : nil
                if status?.pauses.contains(JobQueue.PauseMode.paused.rawValue) == true {
                    Terminal.note(
                        "megaton: the queue is paused, so that no job starts; megaton queue resume ends that, and the "
                            + "draining too."
                    )
                } else if let missing = status.flatMap(QueueObstacle.missingWorker) {
                    Terminal.note("megaton: \(FieldProblem.sentence(missing))")
                }
                if let later = try await queue.scheduled(), later.last > Self.shortWait {
                    let jobs = "\(Counted.jobs(later.count)) \(later.count == 1 ? "waits" : "wait") for a time"
                    Terminal.note(
                        "megaton: \(jobs), up to \(BatchProgress.time(later.last)) from now; this command waits for "
                            + "\(later.count == 1 ? "it" : "them"). --timeout limits that, and megaton batch cancel ends "
                            + "those of a batch."
                    )
                }
                try await timeout.wait(orElse: { "\(Counted.jobs(alive)) \(alive == 1 ? "has" : "have") not ended" }) {
                    alive = try await queue.alive()
                    return alive == 0 ? () : nil
                }
                try Terminal.output("drained: no job is staged, ready, running, delayed or held")
            }
        }
    }
}

/// `megaton queue resume`
struct QueueResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Undo megaton queue pause and megaton queue drain.",
        discussion: """
            Examples:
              megaton queue resume
            """
    )

    @OptionGroup var redis: RedisOptions

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                for mode in JobQueue.PauseMode.allCases { try await queue.set(mode, to: false) }
                try QueueCommand.report("resumed")
            }
        }
    }
}
