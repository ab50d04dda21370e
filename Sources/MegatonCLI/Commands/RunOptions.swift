import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// Arguments of `megaton run` and `megaton plan`.
struct RunOptions: ParsableArguments {
    /// The further groups of a run, which the commands declare and `take` sets, as those of `BatchOptions`.
    private(set) var batch = BatchOptions()
    private(set) var redis = RedisOptions()
    private(set) var worker = WorkerOptions()

    @Option(
        name: [.long, .customShort("o")],
        help: ArgumentHelp(
            "Output directory, tar:DIR for shards, or s3://bucket/prefix/. Only --retry-failed without inputs needs "
                + "none.",
            valueName: "dir"
        ),
        completion: .directory
    )
    var output: String?

    @Option(
        name: [.long, .customShort("j", allowingJoined: true)],
        help: ArgumentHelp(
            "Number of worker processes. By default the number of processors, or fewer if --memory has less than 16 "
                + "MiB for each; none with --redis.",
            valueName: "workers"
        )
    )
    var workers: Int?

    @Option(
        name: .customLong("cache-size"),
        help: ArgumentHelp("Size of the private Redis, MiB.", valueName: "MiB")
    )
    var cacheSize = RunOptions.defaultCacheSize

    private static let defaultCacheSize = 1024

    @Flag(name: .long, help: "Show the logs of the workers, as --log-level info does.")
    var verbose = false

    @Option(
        name: .customLong("log-level"),
        help: ArgumentHelp(
            "Show the logs of the workers, of this level and above: trace, debug, info, notice, warning, error or "
                + "critical.",
            valueName: "level"
        ),
        completion: .list(Logger.Level.allCases.map(\.rawValue))
    )
    var logLevel: String?

    @Flag(
        name: .customLong("delete-orphans"),
        help: ArgumentHelp(
            "At the end, delete the outputs beneath --output that only an earlier run has made, as its inputs or "
                + "renditions are no longer those of this run. Files that were changed since stay. A run without it "
                + "starts its ledger anew and forgets these outputs: no later run finds them."
        )
    )
    var deleteOrphans = false

    @Flag(name: [.long, .customShort("y")], help: "Do not ask before the orphans are deleted.")
    var yes = false

    /// Nil without `--output`.
    var target: OutputTarget? { output.map(OutputTarget.init) }

    /// Nil if the logs are not shown.
    var shownLevel: Logger.Level? {
        logLevel.map { Logger.Level(rawValue: $0) ?? .info } ?? (verbose ? .info : nil)
    }

    /// Takes the further groups of a run from its command, and checks all options.
    mutating func take(_ batch: BatchOptions, _ redis: RedisOptions, _ worker: WorkerOptions) throws {
        (self.batch, self.redis, self.worker) = (batch, redis, worker)
        // A default for other runs.
        if !batch.hasInputs, batch.retryFailed != nil, OptionOrigins.isConfigured("--output") { output = nil }
        // The jobs of a ledger have their own outputs; others need a directory.
        if output == nil && (batch.retryFailed == nil || batch.hasInputs) {
            throw ValidationError("--output is missing: it must name the directory for the outputs.")
        }
        if output != nil { try batch.refuseOutputOfRetry() }
        try self.batch.checkOutput(output)
        if target?.isShards == true { self.worker.storeRenditions() }
        try batch.checkOrphans(target, isConfirmed: yes, deletes: deleteOrphans)
        if target?.isShards == true, self.worker.localCache != nil {
            throw ValidationError(
                "--local-cache does not go with --output tar:DIR, which needs the renditions in the shared cache."
            )
        }
        if target?.isShards == true, !self.worker.policy.storesRenditions {
            throw ValidationError(
                "--output tar:DIR needs the renditions in the cache, and --cache-policy \(worker.cachePolicy) stores none."
            )
        }
        try OptionRange.check("--workers", workers, 1...256)
        if workers != nil || !redis.namesRedis {
            try WorkerOptions.checkMemory(worker.memory, workers: workers ?? worker.usualWorkers)
        }
        try OptionRange.check("--cache-size", cacheSize, 64...1_048_576, " MiB")
        if let logLevel { try LogOptions.check(logLevel) }
        if !redis.cacheRedis.isEmpty && !redis.namesRedis {
            throw ValidationError(
                OptionOrigins.isConfigured("--cache-redis")
                    ? "--cache-redis is set, but not the control Redis (--redis): unset it for a private Redis."
                    : "--cache-redis needs --redis."
            )
        }
        try refuseOptionsWithoutEffect()
        if let preset = batch.presets.preset, batch.presets.presets == nil, !redis.namesRedis {
            throw ValidationError(
                "--preset \(preset) needs --presets FILE: this run starts a coordinator of its own, which knows no other "
                    + "presets."
            )
        }
        // The workers of a cluster may have it enabled.
        let writesJXL = try batch.renditions.renditions().contains { $0.format == .jxl }
        if writesJXL && !worker.additionalTypes.contains(.jxl) && !redis.namesRedis {
            throw ValidationError("The format jxl needs --allow-type jxl.")
        }
    }

    /// - Throws: `ValidationError` if an option of workers was given and the run starts none.
    private func refuseOptionsWithoutEffect() throws {
        guard redis.namesRedis else { return }
        if cacheSize != Self.defaultCacheSize, !OptionOrigins.isConfigured("--cache-size") {
            throw ValidationError(
                "--cache-size has no effect with --redis: it is the size of the private Redis, which this run does "
                    + "not start."
            )
        }
        let names = worker.namesForWorkersOnly(readsSources: batch.hasRemoteInputs).filter {
            !OptionOrigins.isConfigured($0)
        }
        guard workers == nil, let first = names.first else { return }
        let verb = names.count == 1 ? "has" : "have"
        throw ValidationError(
            "\(names.joined(separator: ", ")) \(verb) no effect with --redis and without --workers: the workers of "
                + "the cluster have options of their own. Start megaton worker with "
                + "\(names.count == 1 ? first : "them"), or give --workers N for workers of this run."
        )
    }

    /// Checks inputs and ledgers before any work begins.
    ///
    /// - Throws: `CLIError` for the first one that is missing or cannot be used.
    func check() throws {
        try batch.check(fileExtensions: worker.fileExtensions)
        try batch.requireOutputOfRetry(target, isPrivate: !redis.namesRedis)
    }

    /// The absolute path of the output directory; nil without `--output`, and for objects.
    ///
    /// - Throws: `CLIError` if it is an input too.
    func checkedOutput() throws -> String? {
        try (target?.directory).map { try RunPaths.checked($0, inputs: batch.inputs) }
    }

    /// The directories that outputs may go to; nil if only the workers know: for the jobs of a ledger, the workers of a
    /// cluster decide.
    ///
    /// - Parameter own: directories that the run itself names.
    func outputRoots(_ own: [String]) -> [String]? {
        redis.namesRedis && batch.retryFailed != nil ? nil : own + worker.roots
    }

    /// Prints the work of the run, and does none of it.
    func plan(_ form: Planner.Form) async throws {
        let output = try checkedOutput()
        let retried = batch.retryFailed.map { RetryLedger(path: $0).directory }
        let ledger = RunPaths.ledger(batch, output: output)
        var shards: ShardSurvey?
        if target?.isShards == true, let output { shards = try await batch.shardSurvey(output) }
        try await Planner(
            batch,
            output: output,
            objects: try target?.bucket(),
            earlier: LedgerPath.descriptor(of: ledger) == nil ? EarlierLedger(ledger: ledger) : nil,
            form: form,
            fileExtensions: worker.fileExtensions,
            roots: outputRoots([output, retried].compactMap { $0 }),
            files: [ledger] + (worker.access.credentials.map { [$0] } ?? []),
            remote: try batch.remoteInputs(worker.access),
            shards: shards
        ).run()
    }
}
