import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import MegatonRedis
import NIOPosix

/// `megaton run`
struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Make thumbnails of all inputs, and wait for them.",
        discussion: """
            Examples:
              megaton run photos -o thumbs
              megaton run urls.txt -o thumbs --size 320 --size 1280x --format webp
              megaton run photos -o thumbs --rendition name=card,width=400,height=300,fit=cover,gravity=smart
              find photos -newer last-run -name '*.jpg' | megaton run - -o thumbs -j 4 -q
              megaton run photos -o thumbs --exclude '*.gif' --exclude 'drafts/*' --dry-run
              megaton run jobs.jsonl -o thumbs --ledger - | jq -r 'select(.status == "failed") | .source'
              megaton run --retry-failed thumbs/megaton-ledger.jsonl
              megaton run photos -o thumbs --delete-orphans

            Without --redis it starts a private Redis, a coordinator and workers, and ends them when it ends. The \
            cache stays, so that a second run makes only what is missing. With --redis, which may come from \
            MEGATON_REDIS or a file (see megaton config --help), it uses that cluster, and starts workers of its own \
            only if --workers is given; all workers share the jobs.

            Outputs go beneath --output, --allow-root and --allow-bucket only. An output replaces an image of its own \
            format; to replace any other file, give --overwrite. An input is never replaced by a file. Lines of a .txt \
            list and of standard input name sources; jobs come from a .jsonl list and from --jobs-from.

            Exit codes: 0 all jobs are done, 2 some failed, were cancelled or could not be repeated (the ledger says \
            which, and why) or a directory could not be read, 64 wrong usage, 69 Redis or an input is not reachable, \
            70 workers cannot start or continue, 74 a file, the bucket of --output or standard output cannot be \
            written, 75 the time of --timeout is over, 130 interrupted.
            """
    )

    @OptionGroup(title: "Inputs and Jobs") var batchOptions: BatchOptions
    @OptionGroup(title: "Lists") var lists: ListOptions
    @OptionGroup(title: "Renditions") var renditions: RenditionOptions
    @OptionGroup(title: "Presets") var presets: PresetOptions
    @OptionGroup(title: "Redis") var redisOptions: RedisOptions
    @OptionGroup(title: "Workers") var workerOptions: WorkerOptions
    @OptionGroup(title: "Access to Sources") var access: SourceAccessOptions
    @OptionGroup(title: "Limits of Sources") var limits: SourceLimitOptions
    @OptionGroup(title: "Outputs and Processes") var options: RunOptions

    var batch: BatchOptions { options.batch }
    var redis: RedisOptions { options.redis }
    var worker: WorkerOptions { options.worker }
    var target: OutputTarget? { options.target }

    mutating func validate() throws {
        try batchOptions.take(lists, renditions, presets)
        workerOptions.take(access, limits)
        try options.take(batchOptions, redisOptions, workerOptions)
    }

    func run() async throws {
        let page = ReportTask()
        do {
            try await run(page)
        } catch {
            await page.end()
            throw error
        }
    }

    private func run(_ page: ReportTask) async throws {
        let deadline = batch.deadline(from: .now)
        try await reportingFailures {
            try options.check()
            Terminal.isQuiet = batch.quiet
            if batch.dryRun { return try await options.plan(.list) }
            // Checked here because each worker reads the file itself, and one after the other would fail.
            if let credentials = worker.access.credentials { try CredentialsFile.requireRegular(credentials) }
            if let file = try worker.access.credentialsFile(), file.isExposed {
                Terminal.error(
                    "megaton: the credentials file \(worker.access.credentials ?? "") is readable by others; run "
                        + "chmod 600 on it."
                )
            }
            // Checked here for the same reason; the workers read the directory themselves.
            try check(try await worker.loadedWatermarks())
            try requireConfirmation()
            let shutdown = ShutdownSignal()
            let (result, orphans, forgotten) = try await ProcessSignals.forwarded(to: shutdown) {
                let paths = try await preparedPaths(shutdown)
                try await requireOutput(paths, shutdown, deadline)
                let isSharded = target?.isShards ?? false
                let finder = orphanFinder(paths)
                let ledger = try await Ledger.open(
                    paths.ledger,
                    isDurable: isSharded,
                    isContinued: isSharded,
                    orphans: options.deleteOrphans ? finder : nil
                ) {
                    shutdown.level == .abort
                }
                defer { ledger.close() }
                // The ledger is locked now, and has the lines of the earlier run until the first job ends.
                let earlier = try await prepared(finder, shutdown)
                let shards = isSharded ? try await batch.shardOutput(paths.output, ledger, unless: shutdown) : nil
                defer { shards?.close() }
                let files = Files(paths: paths, ledger: ledger, shards: shards, finder: earlier, report: page)
                let result = try await runBatch(files, shutdown, deadline)
                guard let orphans = files.finder else { return (result, OrphanDeletion.Counts?.none, Int?.none) }
                guard orphans.isDeleting else {
                    return (result, OrphanDeletion.Counts?.none, orphans.forgottenCount)
                }
                let deletion = OrphanDeletion(finder: orphans, isConfirmed: options.yes, shutdown: shutdown)
                return (result, try await deletion.run(after: result), Int?.none)
            }
            try await report(result, orphans, forgotten, page)
        }
    }

    /// Paths and open files of a run.
    struct Files: Sendable {
        let paths: RunPaths
        let ledger: Ledger
        /// Nil if the outputs are files.
        let shards: ShardOutput?
        /// Nil if orphans are neither deleted nor counted.
        let finder: OrphanFinder?
        let report: ReportTask
        /// Signaled when all jobs have ended: the workers of the run have nothing to do then.
        let jobsEnded = AsyncSignal()
    }

    private func runBatch(
        _ files: Files,
        _ shutdown: ShutdownSignal,
        _ deadline: ContinuousClock.Instant?
    ) async throws -> BatchRun.Result {
        if redis.namesRedis { return try await onCluster(files, shutdown, deadline) }
        return try await EmbeddedRedis(
            size: options.cacheSize * 1024 * 1024,
            shutdown: shutdown,
            deadline: deadline
        ).run { address in
            try await withHelpers([address], files, defaultWorkers, shutdown, deadline) {
                try await result([address], [address], files, shutdown, deadline)
            }
        }
    }

    /// Without workers of the run, only those of the cluster know which images they have; the jobs of a ledger have
    /// renditions of their own.
    ///
    /// - Throws: `CLIError` if a rendition names a watermark that the workers of the run would lack.
    private func check(_ watermarks: Watermarks?) throws {
        guard batch.hasInputs, !redis.namesRedis || options.workers != nil else { return }
        let preset = try batch.presets.preset.map { try batch.presets.load()[$0] ?? [] }
        try WatermarkCheck.requireImages(
            of: try preset ?? batch.renditions.renditions(),
            among: watermarks
        )
    }

    /// - Throws: `CLIError` if no user can be asked about the orphans.
    private func requireConfirmation() throws {
        guard options.deleteOrphans, !options.yes, !Terminal.canAsk else { return }
        throw CLIError.usage(
            "--delete-orphans asks before it deletes, and there is no terminal to ask on; add --yes to confirm. "
                + "megaton plan shows the orphans. Nothing was begun."
        )
    }

    private func orphanFinder(_ paths: RunPaths) -> OrphanFinder? {
        guard let output = paths.output else { return nil }
        let earlier = EarlierLedger(ledger: paths.ledger)
        let isDeleting = options.deleteOrphans
        // They are counted if that is known soon: of a retry, or of shards, they never are.
        let isCounting = target?.isShards == false && batch.retryFailed == nil && earlier.isBrief
        guard isDeleting || isCounting else { return nil }
        return OrphanFinder(earlier, output: output, others: worker.roots, isDeleting: isDeleting)
    }

    /// The finder with the lines of the earlier run. A ledger that cannot be read ends only a run that deletes orphans.
    private func prepared(_ finder: OrphanFinder?, _ shutdown: ShutdownSignal) async throws -> OrphanFinder? {
        guard let finder else { return nil }
        do {
            try await onThread { try finder.prepare { shutdown.level > .none } }
            return finder.isDeleting || !finder.isEmpty ? finder : nil
        } catch let error as CLIError where !finder.isDeleting && error.code != 130 {
            Terminal.error("megaton: the outputs of the last run are not compared: \(error.message)")
            return nil
        }
    }

    /// - Parameter shutdown: its first signal ends the reading of a ledger.
    /// - Throws: `CLIError` if a path cannot be used, or if the page of `--report` would replace another file, or 130
    ///   after a signal.
    private func preparedPaths(_ shutdown: ShutdownSignal) async throws -> RunPaths {
        try await onThread {
            let paths = try RunPaths(
                batch,
                output: target?.directory,
                writesFiles: target?.isShards != true,
                isStopped: { shutdown.level > .none }
            )
            if batch.report { try ReportPage.check(ReportPage.path(beside: paths.ledger)) }
            return paths
        }
    }

    /// Checks the outputs that this machine writes. The workers of a cluster may have other rights.
    private func requireOutput(
        _ paths: RunPaths,
        _ shutdown: ShutdownSignal,
        _ deadline: ContinuousClock.Instant?
    ) async throws {
        guard !redis.namesRedis || options.workers != nil || target?.isShards == true else { return }
        if let output = paths.output {
            let remark: String? = try await onThread { try OutputCheck.checkDirectory(output) }
            if let remark { Terminal.error("megaton: \(remark)") }
        }
        if let cache = worker.localCache {
            let remark: String? = try await onThread { OutputCheck.localCacheRemark(cache) }
            if let remark { Terminal.error("megaton: \(remark)") }
        }
        if let bucket = try target?.bucket() {
            try await OutputCheck.requireBucket(bucket, worker.access, shutdown, until: deadline)
        }
    }

    /// Runs the body on a thread of its own, as a ledger may be long.
    private func onThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        let thread = ThreadPool(name: "megaton-paths", count: 1)
        defer { thread.stop() }
        return try await thread.run(body)
    }

    /// Runs the batch on a cluster, with its workers and, if requested, with local ones too.
    private func onCluster(
        _ files: Files,
        _ shutdown: ShutdownSignal,
        _ deadline: ContinuousClock.Instant?
    ) async throws -> BatchRun.Result {
        let paths = files.paths
        let (control, caches) = (try redis.controls(), try redis.caches())
        if let origin = OptionOrigins.origin(of: "--redis") {
            Terminal.note("megaton: using the cluster of \(origin), \(Self.names(control)).")
        }
        try await InspectorSession.run(redis) { inspector in
            let status = try await inspector.status()
            if let pause = QueueObstacle.pause(status) { Terminal.error("megaton: the jobs will wait: \(pause).") }
            let others = status.livingWorkers.count
            if others > 0 && options.workers != nil, case .directory(let output)? = target {
                let shown = paths.readRoots.prefix(3).map { " --allow-read \($0)" }.joined()
                let reading = shown.isEmpty ? "" : " and" + shown + (paths.readRoots.count > 3 ? " …" : "")
                Terminal.error(
                    "megaton: \(Counted.of(others, "other worker")) of the cluster \(others == 1 ? "shares" : "share") "
                        + "these jobs with limits of their own, and may not know their directories: without --allow-root "
                        + "\(FileNames.absolutePath(output))\(reading), a job fails there. --queue NAME keeps the jobs "
                        + "of this run to its own workers."
                )
            }
            if others > 0 && options.workers != nil, let bucket = try target?.bucket() {
                Terminal.error(
                    "megaton: \(Counted.of(others, "other worker")) of the cluster \(others == 1 ? "shares" : "share") "
                        + "these jobs with limits of their own, and may not know the bucket: without --allow-bucket "
                        + "\(bucket) and a credential "
                        + "for it, a job fails there. --queue NAME keeps the jobs of this run to its own workers."
                )
            }
            if status.livingWorkers.isEmpty && options.workers == nil {
                Terminal.error(
                    "megaton: the cluster has no worker; the jobs wait until one starts. Start megaton worker, or give "
                        + "--workers N."
                )
            }
        }
        guard let workers = options.workers else {
            return try await result(control, caches, files, shutdown, deadline)
        }
        return try await withHelpers(control, files, workers, shutdown, deadline) {
            try await result(control, caches, files, shutdown, deadline)
        }
    }

    /// Runs the batch, and begins with its page.
    private func result(
        _ control: [RedisConfiguration],
        _ caches: [RedisConfiguration],
        _ files: Files,
        _ shutdown: ShutdownSignal,
        _ deadline: ContinuousClock.Instant?
    ) async throws -> BatchRun.Result {
        let result = try await batchRun(control, caches, files, shutdown, deadline).run()
        if let ledger = ledger(forReportOf: result) { files.report.begin(ledger) }
        return result
    }

    /// The ledger of which `--report` makes a page; nil without one, or without jobs.
    private func ledger(forReportOf result: BatchRun.Result) -> String? {
        batch.report && (result.summary.jobs > 0 || result.hasOtherSamples) ? result.summary.ledger : nil
    }

    private static func names(_ servers: [RedisConfiguration]) -> String {
        servers.map(\.description).joined(separator: " ")
    }

    private var defaultWorkers: Int { options.workers ?? worker.usualWorkers }

    private func batchRun(
        _ control: [RedisConfiguration],
        _ caches: [RedisConfiguration],
        _ files: Files,
        _ shutdown: ShutdownSignal,
        _ deadline: ContinuousClock.Instant?
    ) async throws -> BatchRun {
        let name = ProcessIdentity.batch("run")
        let paths = files.paths
        let selection = batch.selection(
            output: paths.output,
            objects: try target?.bucket(),
            fileExtensions: worker.fileExtensions
        )
        return try await BatchRun(
            batch,
            batch: name,
            selection: selection,
            builder: try batch.jobBuilder(
                batch: name,
                selection,
                roots: options.outputRoots(paths.outputRoots),
                files: [paths.ledger] + (worker.access.credentials.map { [$0] } ?? []),
                objects: try target?.bucket(),
                samples: files.shards?.known,
                earlier: files.finder
            ),
            showsLogs: options.shownLevel != nil,
            address: QueueAddress(control, queue: redis.queue),
            ledger: files.ledger,
            remote: try batch.remoteInputs(worker.access, shutdown),
            shutdown: shutdown,
            deadline: deadline,
            ownsQueue: !redis.namesRedis,
            shards: files.shards,
            caches: caches,
            jobsEnded: files.jobsEnded
        )
    }

    /// - Parameters:
    ///   - orphans: nil without `--delete-orphans`.
    ///   - forgotten: number of outputs that only the last run has made; nil if it is not known.
    private func report(
        _ result: BatchRun.Result,
        _ orphans: OrphanDeletion.Counts?,
        _ forgotten: Int?,
        _ page: ReportTask
    ) async throws {
        var summary = result.summary
        if let orphans { summary.add(orphans) }
        FailureCauses.report(result.errors, isOfCluster: redis.namesRedis && options.workers == nil)
        result.leftOut.report(canAllowTypes: true)
        let lost = try batch.printSummary(summary)
        if !batch.json {
            Terminal.note("megaton: \(summary.line)")
            if let ledger = LedgerRemark.text(summary.ledger, hasJobs: summary.jobs > 0) {
                Terminal.note("megaton: \(ledger)")
            }
            if let forgotten, forgotten > 0, result.isWhole, summary.failed == 0 {
                Terminal.note("megaton: \(LedgerRemark.forgotten(forgotten))")
            }
        }
        for remark in result.remarks(batch.repetition) { Terminal.error("megaton: \(remark)") }
        if summary.jobs == 0 && !result.wasInterrupted && result.notRetried.isEmpty && !result.hasOtherSamples {
            Terminal.note("megaton: \(batch.nothingToDo)")
        }
        if result.ranOutOfTime {
            Terminal.error(
                "megaton: the time of --timeout, \((batch.timeout ?? 0).formatted()) s, is over; the remaining jobs "
                    + "were cancelled. \(RepeatAdvice.sentence(batch.repetition.clause))"
            )
        } else if result.wasInterrupted {
            Terminal.error("megaton: the run was interrupted; \(batch.repetition.clause).")
        }
        result.notRetried.report()
        result.missing?.report(batch.repetition)
        if let ledger = ledger(forReportOf: result) { ReportCommand.note(try await page.page(of: ledger)) }
        if let lost { throw lost }
        if result.code != 0 { throw ExitCode(result.code) }
        if let orphans, orphans.code != 0 { throw ExitCode(orphans.code) }
    }
}
