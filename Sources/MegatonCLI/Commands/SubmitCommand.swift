import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine
import NIOPosix

/// `megaton submit`
struct SubmitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "submit",
        abstract: "Push jobs to a cluster.",
        discussion: """
            Examples:
              megaton submit urls.txt -o /srv/thumbs --redis redis://127.0.0.1:6479
              megaton submit urls.txt -o /srv/thumbs --batch spring --wait --ledger spring.jsonl
              generate-jobs | megaton submit --jobs-from - --wait --json

            Paths are those of the workers: file: sources and --output must be beneath directories that they allow, \
            and objects in buckets that they allow.
            An output replaces an image of its own format; to replace any other file, give --overwrite.
            \(RedisOptions.environmentHelp)
            """
    )

    @OptionGroup(title: "Inputs and Jobs") var options: BatchOptions
    @OptionGroup(title: "Lists") var lists: ListOptions
    @OptionGroup(title: "Renditions") var renditions: RenditionOptions
    @OptionGroup(title: "Presets") var presets: PresetOptions
    @OptionGroup(title: "Redis") var redis: RedisOptions
    @OptionGroup(title: "Inputs That Are Read over the Network") var access: SourceAccessOptions

    @Option(
        name: [.long, .customShort("o")],
        help: ArgumentHelp(
            "Output directory on the workers, tar:DIR for shards that this command writes, or s3://bucket/prefix/; "
                + "without it the outputs stay in the cache.",
            valueName: "dir"
        ),
        completion: .directory
    )
    var output: String?

    @Option(name: .long, help: "Name of the batch; by default a new one.")
    var batch: String?

    @Option(name: .long, help: ArgumentHelp("Time before which no job begins.", valueName: "seconds"))
    var delay: Double?

    @Flag(name: .long, help: "Wait until all jobs have ended.")
    var wait = false

    @Flag(
        name: .customLong("keep-outcomes"),
        help: "Keep the outcomes in Redis for megaton batch results, as --wait does."
    )
    var keepOutcomes = false

    /// Nil without `--output`.
    private var target: OutputTarget? { output.map(OutputTarget.init) }

    mutating func validate() throws {
        try options.take(lists, renditions, presets)
        options.isBatchNamed = batch != nil
        if let batch, !Job.isName(batch) {
            throw ValidationError("--batch must be a name of \(Job.nameRule), not \"\(batch)\".")
        }
        // A default for other submissions.
        if !options.hasInputs, options.retryFailed != nil, OptionOrigins.isConfigured("--output") { output = nil }
        if output != nil { try options.refuseOutputOfRetry() }
        try options.checkOutput(output)
        if target?.isShards == true && !wait { throw ValidationError("--output tar:DIR needs --wait.") }
        // An hour less than jobs may have, as reading the inputs takes its time.
        try OptionRange.check("--delay", delay, 0...(Job.maximumDelay - 3600), " seconds")
        if options.ledger != nil && !wait && !OptionOrigins.isConfigured("--ledger") {
            throw ValidationError("--ledger needs --wait.")
        }
        if options.report && options.ledger == nil && !OptionOrigins.isConfigured("--report") {
            throw ValidationError("--report needs --wait and --ledger FILE.")
        }
        let without = access.names.filter { !OptionOrigins.isConfigured($0) }
        if let name = without.first, !options.hasRemoteInputs {
            throw ValidationError(
                "\(name) has no effect: no input is read over the network. The workers have options of their own for "
                    + "the sources of jobs."
            )
        }
        if options.timeout != nil && !wait && !OptionOrigins.isConfigured("--timeout") {
            throw ValidationError("--timeout needs --wait.")
        }
    }

    func run() async throws {
        let deadline = options.deadline(from: .now)
        try await reportingFailures {
            try options.check()
            try options.requireOutputOfRetry(target, isPrivate: false)
            if !wait && !options.quiet { try StandardStreams.requireOutput(for: "the name of the batch") }
            Terminal.isQuiet = options.quiet
            let directory = (target?.directory).map(FileNames.absolutePath)
            let isSharded = target?.isShards ?? false
            if options.dryRun {
                let remote = try options.remoteInputs(access)
                return try await Planner(
                    options,
                    output: directory,
                    objects: try target?.bucket(),
                    earlier: nil,
                    form: .list,
                    remote: remote
                ).run()
            }
            let shutdown = ShutdownSignal()
            let name = batch ?? ProcessIdentity.batch("submit")
            let address = try redis.address()
            try await InspectorSession.connected(redis) { queue, caches in
                for server in queue.shards.servers {
                    if let reason = try await EvictionPolicyCheck.run(server) { Terminal.note("megaton: \(reason)") }
                }
                let damaged = try await DamagedKeys.find(in: queue, batch: name)
                if !damaged.isEmpty {
                    return Terminal.error("megaton: the jobs may fail or wait: \(DamagedKeys.sentences(damaged))")
                }
                let status = try await Inspector(queue: queue, caches: caches).status()
                for obstacle in [QueueObstacle.pause(status), QueueObstacle.missingWorker(status)] {
                    if let obstacle { Terminal.error("megaton: the jobs will wait: \(obstacle).") }
                }
            }
            if output == nil && options.retryFailed == nil {
                Terminal.note(
                    "megaton: without --output the renditions stay in the cache, except for jobs that name their own "
                        + "output."
                )
            }
            let path = options.ledger.map(LedgerPath.absolute)
            let ledger =
                wait
                ? try await Ledger.open(path, isDurable: true, isContinued: isSharded) { shutdown.level == .abort }
                : nil
            let shards = isSharded ? try await options.shardOutput(directory, ledger, unless: shutdown) : nil
            defer { shards?.close() }
            let selection = options.selection(output: directory, objects: try target?.bucket())
            let run = try await BatchRun(
                options,
                batch: name,
                selection: selection,
                builder: try options.jobBuilder(
                    batch: name,
                    selection,
                    roots: nil,
                    files: path.map { [$0] } ?? [],
                    delay: delay,
                    objects: try target?.bucket(),
                    samples: shards?.known
                ),
                address: address,
                ledger: ledger,
                remote: try options.remoteInputs(access, shutdown),
                shutdown: shutdown,
                deadline: deadline,
                cancelsAtTimeout: false,
                keepsOutcomes: wait || keepOutcomes,
                shards: shards,
                caches: isSharded ? try redis.caches() : []
            )
            guard wait else {
                let count = try await ProcessSignals.forwarded(to: shutdown) { try await run.submitOnly() }
                run.leftOut.report(canAllowTypes: false)
                if !options.quiet || options.json { try print(name, count) }
                if count == 0 && run.notRetried.isEmpty { Terminal.note("megaton: \(options.nothingToDo)") }
                run.notRetried.report()
                if !run.notRetried.isEmpty || run.leftOut.unreadable > 0 { throw ExitCode(2) }
                return
            }
            let result: BatchRun.Result
            do {
                result = try await ProcessSignals.forwarded(to: shutdown) { try await run.run() }
            } catch let error as CLIError where error.code == BatchFailure.stoppedWaitingCode {
                // The batch goes on: a program needs its name to wait for it.
                if options.json { try print(name, run.submitted) }
                throw error
            }
            let summary = result.summary
            FailureCauses.report(result.errors, isOfCluster: true)
            result.leftOut.report(canAllowTypes: false)
            let lost = try options.printSummary(summary)
            if !options.json { Terminal.note("megaton: \(summary.line)") }
            for remark in result.remarks(options.repetition) { Terminal.error("megaton: \(remark)") }
            if summary.jobs == 0 && !result.wasInterrupted && result.notRetried.isEmpty && !result.hasOtherSamples {
                Terminal.note("megaton: \(options.nothingToDo)")
            }
            if summary.failed > 0 && path == nil {
                Terminal.note(
                    "megaton: megaton dead list --batch \(name) lists the failed jobs; --ledger FILE writes a line for "
                        + "each job."
                )
            }
            result.notRetried.report()
            result.missing?.report(options.repetition)
            if options.report, let path, summary.jobs > 0 || result.hasOtherSamples {
                ReportCommand.note(try await ReportCommand.page(of: path))
            }
            if let lost { throw lost }
            if result.code != 0 { throw ExitCode(result.code) }
        }
    }

    /// Prints the number of submitted jobs and the name of their batch.
    private func print(_ name: String, _ count: Int) throws {
        let json = "{\"batch\":\"\(name)\",\"jobs\":\(count)}"
        do throws(CLIError) {
            try Terminal.output(options.json ? json : "\(Counted.jobs(count)), batch \(name)")
        } catch {
            throw CLIError.output("\(error.message) The batch \(name) with \(Counted.jobs(count)) was submitted.")
        }
    }
}
