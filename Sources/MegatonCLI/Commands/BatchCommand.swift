import ArgumentParser
import MegatonCluster
import MegatonCommandLine
import MegatonRedis

/// `megaton batch`
struct BatchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "batch",
        abstract: "List batches, show one, wait for it, read its outcomes, close or cancel it.",
        subcommands: [
            BatchListCommand.self, BatchShowCommand.self, BatchWaitCommand.self, BatchResultsCommand.self,
            BatchCloseCommand.self, BatchCancelCommand.self,
        ]
    )
}

/// `megaton batch list`
struct BatchListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the batches, the newest first. A batch is listed for seven days after its end, "
            + "or as the coordinator's --keep-batches says.",
        discussion: """
            Examples:
              megaton batch list
              megaton batch list --limit 5 --json
            """
    )

    @OptionGroup var redis: RedisOptions

    @Option(name: .long, help: "Maximum number of batches to show.")
    var limit = 50

    @Flag(name: .long, help: "Print one JSON object per line.")
    var json = false

    mutating func validate() throws {
        try OptionRange.check("--limit", limit, 1...10_000)
    }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                let batches = try await queue.batches(limit: limit + 1)
                for batch in batches.prefix(limit) {
                    if let key = batch.damagedKey {
                        Terminal.error(
                            "megaton: the batch \"\(batch.name)\" cannot be read: another program has written its key "
                                + "\(key). megaton doctor says how to repair the queue."
                        )
                        continue
                    }
                    let report = BatchReport(batch)
                    try Terminal.output(json ? try JSONText.line(report) : report.row)
                }
                if batches.isEmpty && !json { try Terminal.output("no batches") }
                if batches.count > limit {
                    Terminal.error(
                        "megaton: the list ends at the newest \(limit == 1 ? "batch" : "\(limit) batches"); --limit "
                            + "shows more."
                    )
                }
            }
        }
    }
}

/// `megaton batch show`
struct BatchShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show the progress of a batch as JSON.",
        discussion: """
            Examples:
              megaton batch show spring
            """
    )

    @OptionGroup var redis: RedisOptions

    @Argument(help: "The batch's name.")
    var name: String

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                try Terminal.output(JSONText.pretty(try await BatchReport.of(name, queue)))
            }
        }
    }
}

/// `megaton batch wait`
struct BatchWaitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wait",
        abstract:
            "Wait until all jobs of a batch have ended. Exits 2 if some failed or were cancelled, 75 after --timeout.",
        discussion: """
            Examples:
              megaton batch wait spring --timeout 3600
            """
    )

    @OptionGroup var redis: RedisOptions

    @Argument(help: "The batch's name.")
    var name: String

    @OptionGroup var timeout: TimeoutOptions

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                if let advice = try await BatchReport.of(name, queue).waitAdvice {
                    Terminal.error("megaton: \(advice)")
                }
                let report = try await timeout.wait(orElse: { "the batch \"\(name)\" has not ended" }) {
                    try await ended(queue)
                }
                try Terminal.output(JSONText.pretty(report))
                if report.failed + report.cancelled > 0 { throw ExitCode(2) }
            }
        }
    }

    /// Nil while the batch runs, and while Redis is unreachable: nothing is lost by waiting.
    private func ended(_ queue: ShardedQueue) async throws -> BatchReport? {
        do {
            let counters = try await BatchReport.counters(of: name, queue)
            if let error = BatchReport.lostPart(counters, of: name) { throw error }
            return counters.isFinished ? BatchReport(BatchSummary(name: name, counters: counters)) : nil
        } catch let error as RedisError {
            guard error.isTransient else { throw error }
            return nil
        }
    }
}

/// `megaton batch cancel`
struct BatchCancelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract: "Cancel a batch: waiting jobs are dropped, running ones stop when their worker renews its leases.",
        discussion: """
            Examples:
              megaton batch cancel spring
            """
    )

    @OptionGroup var redis: RedisOptions

    @Argument(help: "The batch's name.")
    var name: String

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                let before = try await BatchReport.of(name, queue)
                if before.state == "finished" {
                    before.noteEnd()
                    try Terminal.output(before.row)
                    return
                }
                try await queue.cancel(batch: name)
                let report = try await BatchReport.of(name, queue)
                report.noteLoss()
                try Terminal.output(report.row)
            }
        }
    }
}
