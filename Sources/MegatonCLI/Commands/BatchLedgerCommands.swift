import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonRedis
import NIOPosix

/// `megaton batch close`
struct BatchCloseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "close",
        abstract: "Close a batch, so that it ends with its last job.",
        discussion: """
            Examples:
              megaton batch close spring
              megaton batch close spring --jobs 5000

            For a batch whose submitter has died, and for one whose jobs were pushed to the public list. Its jobs \
            continue; megaton batch cancel ends them. Jobs that are still in the public list belong to no batch: give \
            their number with --jobs, or wait until the list is empty. A batch that has ended stays as it is, whatever \
            --jobs says; jobs that are pushed to it later run and are counted in it.
            """
    )

    @OptionGroup var redis: RedisOptions

    @Argument(help: "The batch's name.")
    var name: String

    @Option(
        name: .long,
        help: ArgumentHelp("Number of jobs that were pushed in all; the batch does not end before.", valueName: "n")
    )
    var jobs: Int?

    mutating func validate() throws {
        try OptionRange.check("--jobs", jobs, 0...1_000_000_000_000)
    }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                try await BatchReport.of(name, queue).noteEnd()
                try await queue.close(batch: name, expected: jobs)
                let waiting = try await queue.intakeCount()
                if jobs == nil && waiting > 0 {
                    Terminal.error(
                        "megaton: the public list has \(Counted.jobs(waiting)). If some belong to the batch, it may "
                            + "end before them: --jobs N names the number of its jobs."
                    )
                }
                let report = try await BatchReport.of(name, queue)
                report.noteLoss()
                try Terminal.output(report.row)
            }
        }
    }
}

/// `megaton batch results`
struct BatchResultsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "results",
        abstract: "Print the outcomes of a batch, or continue its ledger. Exits 69 if some are missing.",
        discussion: """
            Examples:
              megaton batch results spring | grep '"status":"failed"'
              megaton batch results spring --follow --ledger spring.jsonl

            Outcomes that are printed stay in Redis. With --ledger they are deleted from it once the file has them, \
            and a file that exists is continued behind its last line, also after a megaton submit --wait that was \
            killed. With --from, the outcomes before that number are deleted too, unread. Several readers of one batch \
            disturb each other.
            """
    )

    @OptionGroup var redis: RedisOptions

    @Argument(help: "The batch's name.")
    var name: String

    @Flag(name: .long, help: "Wait until the batch has ended. Exits 2 if jobs failed or were cancelled.")
    var follow = false

    @Option(name: .long, help: ArgumentHelp("Number of the first outcome, from 1.", valueName: "n"))
    var from: Int?

    @Option(
        name: .long,
        help: ArgumentHelp("Ledger to continue or to begin; - is standard output.", valueName: "file.jsonl"),
        completion: .file()
    )
    var ledger: String?

    @OptionGroup var timeout: TimeoutOptions

    mutating func validate() throws {
        try OptionRange.check("--from", from, 1...1_000_000_000_000)
        if ledger?.isEmpty == true { throw ValidationError("--ledger is empty; it must name a file.") }
        if let ledger { try LedgerPath.check(ledger) }
        if timeout.timeout != nil && !follow && !OptionOrigins.isConfigured("--timeout") {
            throw ValidationError("--timeout needs --follow.")
        }
    }

    /// - Throws: `CLIError` if the ledger is that of shards: their batch's outcomes go there with their samples.
    private static func checkShards(besides ledger: String) throws {
        let directory = (ledger as NSString).deletingLastPathComponent
        guard LedgerPath.descriptor(of: ledger) == nil,
            access("\(directory)/\(ShardNames.manifest)", F_OK) == 0
        else { return }
        throw CLIError.usage(
            "\(directory) has shards, whose samples would be missing if only the ledger had the lines of the batch. "
                + "Repeat the command that writes the shards: it adds the missing ones. Or name a file elsewhere with "
                + "--ledger."
        )
    }

    func run() async throws {
        let deadline = timeout.timeout.map { ContinuousClock.now + .seconds($0) }
        try await reportingFailures {
            if let ledger { try Self.checkShards(besides: LedgerPath.absolute(ledger)) }
            let shutdown = ShutdownSignal()
            let address = try redis.address()
            let logger = LogOptions.logger("megaton", level: .error)
            let group = MultiThreadedEventLoopGroup.singleton
            let queue = try await ShardedQueue.open(address, role: "inspect", group: group, logger: logger)
            let waiting = RedisClient(address.server(0), role: "results", group: group, logger: logger)
            defer {
                queue.close()
                waiting.close()
            }
            if queue.isDivided, let from, from > 1 {
                throw CLIError.usage(
                    "--from does not go with a queue of \(queue.shards.count) shards, each of which numbers its own "
                        + "outcomes; --ledger FILE continues behind what the file has."
                )
            }
            _ = try await BatchReport.of(name, queue)
            let file =
                ledger == nil
                ? nil
                : try await Ledger.open(ledger.map(LedgerPath.absolute), isDurable: true) { shutdown.level == .abort }
            defer { file?.close() }
            let reading = LedgerReading(
                queue: queue,
                waiting: waiting,
                batch: name,
                from: from,
                follows: follow,
                ledger: file,
                deadline: deadline,
                shutdown: shutdown
            )
            let code = try await ProcessSignals.forwarded(to: shutdown) { try await reading.run() }
            if code != 0 { throw ExitCode(code) }
        }
    }
}
