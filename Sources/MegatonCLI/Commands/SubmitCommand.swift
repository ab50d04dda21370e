import ArgumentParser
import Foundation
import MegatonCluster
import NIOPosix

/// `megaton submit`
struct SubmitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "submit",
        abstract: "Push jobs to a cluster.",
        discussion: """
            Paths are the workers' paths: file: sources and --output must be beneath a root that the workers allow.
            \(RedisOptions.environmentHelp)
            """
    )

    @OptionGroup var options: BatchOptions
    @OptionGroup var redis: RedisOptions

    @Option(
        name: .long,
        help: ArgumentHelp("Directory for the outputs, on the workers; none keeps them in the cache.", valueName: "dir")
    )
    var output: String?

    @Option(name: .long, help: "Name of the batch.")
    var batch: String?

    @Flag(name: .long, help: "Wait until all jobs have ended.")
    var wait = false

    mutating func validate() throws {
        if let batch, !Job.isName(batch) { throw ValidationError("--batch must match [A-Za-z0-9._:-]{1,128}.") }
        if output != nil { try options.refuseOutputOfRetry() }
        if output?.isEmpty == true { throw ValidationError("--output is empty; it names a directory.") }
        if options.ledger != nil && !wait { throw ValidationError("--ledger goes with --wait.") }
        if options.timeout != nil && !wait { throw ValidationError("--timeout goes with --wait.") }
    }

    func run() async throws {
        try await reportingFailures {
            try options.check()
            let shutdown = ShutdownSignal()
            let name = batch ?? Identity.batch("submit")
            let control = try redis.control()
            try await InspectorSession.connected(redis) { control, cache in
                try await ControlRedisCheck.run(control)
                let queue = JobQueue(control, keys: redis.keys)
                let status = try await Inspector(queue: queue, cache: cache).status()
                if status.leader == nil || status.livingWorkers.isEmpty {
                    Terminal.error(
                        "megaton: the jobs will wait: the cluster has \(status.leader == nil ? "no coordinator" : "no worker") "
                            + "now. Start megaton \(status.leader == nil ? "coordinator" : "worker")."
                    )
                }
            }
            if output == nil && !options.inputs.isEmpty {
                Terminal.error(
                    "megaton: without --output the renditions stay in the cache, but for jobs that name their own."
                )
            }
            let place = output.map { URL(fileURLWithPath: $0).standardizedFileURL.path }
            let path = options.ledger.map { URL(fileURLWithPath: $0).standardizedFileURL.path }
            let ledger = wait ? try Ledger(path) : nil
            let run = BatchRun(
                options,
                batch: name,
                output: place,
                control: control,
                keys: redis.keys,
                ledger: ledger,
                shutdown: shutdown,
                cancelsAtTimeout: false
            )
            guard wait else {
                let count = try await run.submitOnly()
                Terminal.output(
                    options.json ? "{\"batch\":\"\(name)\",\"jobs\":\(count)}" : "\(count) jobs, batch \(name)"
                )
                return
            }
            let result = try await ProcessSignals.forwarded(to: shutdown) { try await run.run() }
            let summary = result.summary
            if !result.errors.isEmpty { Terminal.error("megaton: what failed, by code:\n\(result.errors)") }
            if options.json {
                Terminal.output(try JSONText.pretty(summary))
            } else {
                Terminal.error("megaton: \(summary.line)")
            }
            let code = summary.exitCode(interrupted: result.wasInterrupted, ranOutOfTime: result.ranOutOfTime)
            if code != 0 { throw ExitCode(code) }
        }
    }
}
