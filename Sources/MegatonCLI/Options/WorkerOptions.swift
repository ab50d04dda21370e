import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// Permissions of a worker. Everything is forbidden unless an option allows it.
struct WorkerOptions: ParsableArguments {
    @Option(
        name: .customLong("allow-root"),
        help: ArgumentHelp(
            "Read file: sources and write file: outputs beneath this directory. Repeatable.",
            valueName: "dir"
        ),
        completion: .directory
    )
    var allowRoot: [String] = []

    @Option(
        name: .customLong("allow-read"),
        help: ArgumentHelp(
            "Read file: sources beneath this directory; write no outputs there. Repeatable.",
            valueName: "dir"
        ),
        completion: .directory
    )
    var allowRead: [String] = []

    @Option(
        name: .customLong("allow-bucket"),
        help: ArgumentHelp(
            "Write s3: outputs to this bucket, or beneath this prefix of its keys. Repeatable.",
            valueName: "bucket[/prefix]"
        )
    )
    var allowBucket: [String] = []

    /// The further groups of a worker, which the commands declare and `take` sets, as those of `BatchOptions`.
    private(set) var access = SourceAccessOptions()
    private(set) var limits = SourceLimitOptions()

    @Option(
        name: .customLong("allow-type"),
        help: ArgumentHelp(
            "Also decode tiff, svg or jxl, and write jxl: codecs with a larger attack surface. Repeatable.",
            valueName: "type"
        )
    )
    var allowType: [String] = []

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Memory for images that are rendered at the same time, estimated from their headers; shared by all "
                + "workers of a run. By default half of the memory of the machine or control group, and at least 512 "
                + "MiB for each worker. Downloads above 4 MiB are in temporary files (TMPDIR); a worker uses at most "
                + "256 MiB more than this.",
            valueName: "mib"
        )
    )
    var memory: Int?

    @Option(
        name: .customLong("cache-policy"),
        help: ArgumentHelp(
            "Content of the shared cache. reused: the renditions, and the originals that other jobs need too or that "
                + "are fetched a second time within two days. all: both always. encoded: the renditions. original: the "
                + "originals. automatic: the results, as with encoded, and the originals of jobs that only fetch. "
                + "none: nothing.",
            valueName: "policy"
        ),
        completion: .list(ImagePipeline.DataCachePolicy.allCases.map(\.rawValue))
    )
    var cachePolicy = ImagePipeline.DataCachePolicy.storeReused.rawValue

    @Option(
        name: .customLong("local-cache"),
        help: ArgumentHelp(
            "Directory for copies of entries of the shared cache, so that their bytes are read from it once. "
                + "Created if missing. The workers of a machine may share it.",
            valueName: "dir"
        ),
        completion: .directory
    )
    var localCache: String?

    @Option(
        name: .customLong("local-cache-size"),
        help: ArgumentHelp("Size of --local-cache.", valueName: "mib")
    )
    var localCacheSize = 1024

    @Option(
        name: .customLong("heuristic-lifetime"),
        help: ArgumentHelp(
            "How long a response is fresh if it has neither a lifetime nor Last-Modified. With Last-Modified it is "
                + "fresh for a tenth of the time since then, and at most seven times this. With 0 the origin is asked "
                + "each time. Used when a response is stored: entries that are in the cache keep their lifetime.",
            valueName: "seconds"
        )
    )
    var heuristicLifetime: Double = 24 * 3600

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Renderer: auto uses planes for thumbnails of common JPEGs and libvips otherwise; vips uses libvips only; "
                + "planes refuses all other images.",
            valueName: "auto|vips|planes"
        ),
        completion: .list(RenderEngineChoice.allCases.map(\.rawValue))
    )
    var engine = RenderEngineChoice.auto.rawValue

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Directory of the images that watermarks of renditions may name: at most 64 files of 8 MiB, which are read "
                + "at the start.",
            valueName: "dir"
        ),
        completion: .directory
    )
    var watermarks: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Number of concurrent jobs of each worker; most of them wait for an origin. By default 64 in a run, 16 in "
                + "a worker. Up to three times as many do not count while their images take a second to arrive, or far "
                + "longer than others.",
            valueName: "number"
        )
    )
    var concurrency: Int?

    @Option(
        name: .customLong("host-concurrency"),
        help: "Maximum number of concurrent requests of the whole cluster to one host."
    )
    var hostConcurrency = 64

    @Option(
        name: .customLong("host-rate"),
        help: ArgumentHelp(
            "Maximum number of requests per second of the whole cluster to one host.",
            valueName: "number"
        )
    )
    var hostRate: Double?

    @Option(
        name: .customLong("host-patience"),
        help: ArgumentHelp(
            "Fail the jobs of a host once its circuit breaker has been open for this time, or for a sixth of it if the "
                + "host has never answered; until then they wait.",
            valueName: "seconds"
        )
    )
    var hostPatience: Double = 60

    @Option(
        name: .customLong("max-wait"),
        help: ArgumentHelp(
            "Fail a job at once if its origin demands a longer wait (Retry-After). By default 120 in a run, 3600 in a "
                + "worker.",
            valueName: "seconds"
        )
    )
    var maxWait: Double?

    @Option(
        name: .customLong("fetch-timeout"),
        help: ArgumentHelp("Time limit of a whole fetch with its redirects.", valueName: "seconds")
    )
    var fetchTimeout = 20.0

    @Option(
        name: .customLong("stall-timeout"),
        help: ArgumentHelp("Fail a fetch that receives less than 1 KiB per second for this time.", valueName: "seconds")
    )
    var stallTimeout = 10

    @Option(
        name: .customLong("connect-timeout"),
        help: ArgumentHelp("Time limit for connecting to an origin, TLS included.", valueName: "seconds")
    )
    var connectTimeout = 5.0

    mutating func validate() throws {
        if watermarks?.isEmpty == true { throw ValidationError("--watermarks is empty; it must name a directory.") }
        try Self.checkMemory(memory)
        try OptionRange.check("--concurrency", concurrency, 1...1024)
        try OptionRange.check("--host-concurrency", hostConcurrency, 1...100_000)
        try OptionRange.check("--host-patience", hostPatience, 0...86_400, " s")
        try OptionRange.check("--host-rate", hostRate, 0.001...1e6, " a second")
        try OptionRange.check("--max-wait", maxWait, 0...31_536_000, " seconds")
        try OptionRange.check("--fetch-timeout", fetchTimeout, 0.1...86_400, " seconds")
        try OptionRange.check("--stall-timeout", stallTimeout, 1...86_400, " seconds")
        try OptionRange.check("--connect-timeout", connectTimeout, 0.1...86_400, " seconds")
        if ImagePipeline.DataCachePolicy(rawValue: cachePolicy) == nil {
            throw ValidationError(
                "--cache-policy must be reused, all, automatic, original, encoded or none, not \"\(cachePolicy)\"."
            )
        }
        if localCache?.isEmpty == true { throw ValidationError("--local-cache is empty; it must name a directory.") }
        try OptionRange.check("--local-cache-size", localCacheSize, 16...67_108_864, " MiB")
        try OptionRange.check("--heuristic-lifetime", heuristicLifetime, 0...Self.longestHeuristic, " seconds")
        if RenderEngineChoice(rawValue: engine) == nil {
            throw ValidationError("--engine must be auto, vips or planes, not \"\(engine)\".")
        }
        for type in allowType where Self.switches[type] == nil {
            throw ValidationError(
                "--allow-type must be tiff, svg or jxl, not \"\(type)\"; repeat the option for several types."
            )
        }
        for bucket in allowBucket {
            do throws(JobError) {
                _ = try OutputBucket(bucket)
            } catch {
                throw ValidationError("--allow-bucket: \(error.message).")
            }
        }
        for (option, root) in allowRoot.map({ ("--allow-root", $0) }) + allowRead.map({ ("--allow-read", $0) }) {
            var isDirectory: ObjCBool = false
            guard FileManager.default.fileExists(atPath: root, isDirectory: &isDirectory), isDirectory.boolValue else {
                throw ValidationError("\(option) \(root) is not a directory.")
            }
        }
    }

    /// Takes the further groups of a worker from its command.
    mutating func take(_ access: SourceAccessOptions, _ limits: SourceLimitOptions) {
        (self.access, self.limits) = (access, limits)
    }

    private static let longestHeuristic: Double = 365 * 24 * 3600

    private static let switches: [String: (type: AssetType, fileExtensions: Set<String>)] = [
        "tiff": (.tiff, ["tiff", "tif"]), "svg": (.svg, ["svg"]), "jxl": (.jxl, ["jxl"]),
    ]

    /// The options that read some of the files that were left out, as a sentence after a space; empty if none does.
    static func remedy(for skipped: SkippedFiles) -> String {
        let types = switches.filter { skipped.count(of: $0.value.fileExtensions) > 0 }
        if types.isEmpty { return "" }
        let count = types.reduce(0) { $0 + skipped.count(of: $1.value.fileExtensions) }
        let options = types.keys.sorted().map { "--allow-type \($0)" }.joined(separator: " ")
        let readers = types.count == 1 ? "reads" : "read"
        return " \(options) \(readers) \(skipped.count == 1 ? "it" : "\(count) of them")."
    }

    /// Image types that are decoded in addition to the default ones.
    var additionalTypes: Set<AssetType> { Set(allowType.compactMap { Self.switches[$0]?.type }) }

    /// File extensions that are selected in directories.
    var fileExtensions: Set<String> {
        allowType.reduce(InputReader.defaultFileExtensions) { $0.union(Self.switches[$1]?.fileExtensions ?? []) }
    }

    /// The options in the place of the library's settings, as `Worker.Configuration.optionNames` has them.
    static let optionNames = [
        // For a source, the option that allows reading only.
        "add one to the roots of Configuration.fileAccess": "give its directory with --allow-read",
        "add one to the output roots of Configuration.fileAccess": "give its directory with --allow-root",
        ObjectOutput.remedy: "allow the bucket, or a prefix of its keys, with --allow-bucket",
        "Set Configuration.renderEngine to .vips": "Give --engine vips",
        "set Rendition.failOn to .nothing": "give --fail-on none",
        "the directory of Configuration.watermarks, and start the process again":
            "the directory of --watermarks, and start the workers again",
        "the limit of a fetch": "the limit of a fetch (--fetch-timeout)",
        "the limit of a stall": "the limit of a stall (--stall-timeout)",
        "the limit of a connection": "the limit of a connection (--connect-timeout)",
        "the maximum wait of the retry policy": "the maximum wait of the retry policy (--max-wait)",
        // The workers of a run share it.
        "the memory of this process for renders":
            "the memory for renders (--memory, divided by --workers in a run)",
        "VipsRuntime.allow([.jxl])": "--allow-type jxl", "VipsRuntime.allow([.svg])": "--allow-type svg",
        "VipsRuntime.allow([.tiff])": "--allow-type tiff",
        "is a directory, not a file": "is a directory, not a file; name it as an input on the command line",
    ].merging(SourceAccessOptions.optionNames) { option, _ in option }
        .merging(SourceLimitOptions.optionNames) { option, _ in option }

    /// Applies the options to a worker's configuration. Image types are enabled for the whole process, and logged here.
    /// The worker's pipeline logs other settings that are less strict than the defaults.
    ///
    /// - Throws: `CLIError` for the credentials; `ImagePipeline.Error` if libvips has no codec for a type.
    func apply(to configuration: inout Worker.Configuration, logger: Logger) throws {
        configuration.roots = roots
        configuration.readRoots = allowRead.map(FileNames.absolutePath)
        configuration.outputBuckets = allowBucket
        configuration.optionNames = Self.optionNames
        limits.apply(to: &configuration)
        configuration.addressPolicy = access.addressPolicy
        configuration.cachePolicy = policy
        if let localCache { applyLocalCache(localCache, to: &configuration, logger: logger) }
        configuration.heuristicLifetime = .seconds(heuristicLifetime)
        configuration.renderEngine = RenderEngineChoice(rawValue: engine) ?? .auto
        configuration.hostLimits = hostLimits
        if let maxWait { configuration.retry.maximumWait = .seconds(maxWait) }
        configuration.fetchTimeout = .seconds(fetchTimeout)
        configuration.stallTimeout = .seconds(stallTimeout)
        configuration.connectTimeout = .seconds(connectTimeout)
        configuration.sources = try access.sources()
        configuration.s3 = access.s3
        configuration.caFile = access.caFile
        if let memory { configuration.memory = MemoryBudget(bytes: memory << 20) }
        let temporary = ProcessInfo.processInfo.environment["TMPDIR"] ?? ""
        if !temporary.isEmpty { configuration.temporaryDirectory = URL(fileURLWithPath: temporary, isDirectory: true) }
        if !additionalTypes.isEmpty {
            try VipsRuntime.allow(additionalTypes, logger: logger)
            configuration.types.formUnion(additionalTypes)
        }
        if let file = try access.credentialsFile() {
            configuration.credentials = file.credentials
            logger.info("credentials for sources loaded", metadata: ["credentials": "\(file.credentials)"])
            if file.isExposed {
                logger.warning("the credentials file is readable by others; run chmod 600 on it")
            }
        }
    }

    /// Leaves out settings for other runs that keep renditions out of the shared cache, from which shards are written.
    mutating func storeRenditions() {
        if OptionOrigins.ranksAbove("--output", "--local-cache") { localCache = nil }
        if !policy.storesRenditions, OptionOrigins.ranksAbove("--output", "--cache-policy") {
            cachePolicy = ImagePipeline.DataCachePolicy.storeReused.rawValue
        }
    }

    /// The images of `--watermarks`; nil without the option.
    ///
    /// - Throws: `CLIError` with the file and its fault.
    func loadedWatermarks() async throws -> Watermarks? {
        guard let watermarks else { return nil }
        return try await Self.watermarks(in: watermarks)
    }

    /// The images of a directory of `--watermarks`. They are decoded on a thread of their own.
    ///
    /// - Throws: `CLIError` with the file and its fault.
    static func watermarks(in path: String) async throws -> Watermarks {
        try WatermarkCheck.requireDirectory(path)
        let directory = URL(fileURLWithPath: FileNames.absolutePath(path), isDirectory: true)
        let thread = ThreadPool(
            name: "megaton-marks",
            count: 1,
            stackSize: 8 << 20,
            onThreadExit: VipsRuntime.endThread
        )
        defer { thread.stop() }
        do {
            return try await thread.run { try Watermarks(directory: directory) }
        } catch let error as ImagePipeline.Error {
            throw CLIError.usage("--watermarks: \(error.message)")
        }
    }

    /// Time to live of a local copy. Deletions are reported to the worker, so that this limits only what a lost report
    /// can cost; and no copy outlives the lifetime that the origin gave it.
    static let localCacheTTL: Duration = .seconds(600)

    /// Adds the local cache. A directory that cannot be used does not stop the worker.
    private func applyLocalCache(_ path: String, to configuration: inout Worker.Configuration, logger: Logger) {
        var limits = DataCache.Configuration()
        limits.sizeLimit = localCacheSize << 20
        do throws(ImagePipeline.Error) {
            configuration.dataCache = try DataCache(
                path: URL(fileURLWithPath: FileNames.absolutePath(path), isDirectory: true),
                configuration: limits,
                logger: logger
            )
            configuration.nearCacheTTL = Self.localCacheTTL
        } catch {
            logger.warning(
                "the worker works without --local-cache, which cannot be used",
                metadata: ["error": "\(error.message)"]
            )
        }
    }

    var hostLimits: HostLimits {
        var limits = HostLimits()
        limits.concurrency = hostConcurrency
        limits.rate = hostRate
        limits.patience = .seconds(hostPatience)
        return limits
    }

    var policy: ImagePipeline.DataCachePolicy { ImagePipeline.DataCachePolicy(rawValue: cachePolicy) ?? .storeReused }

    var roots: [String] { allowRoot.map(FileNames.absolutePath) }

    /// Names of the given options that affect only workers. `--allow-root` and `--allow-type` also select outputs and
    /// files of directories.
    ///
    /// - Parameter readsSources: whether this process also reads inputs over the network.
    func namesForWorkersOnly(readsSources: Bool) -> [String] {
        // The parser always accepts an empty command line.
        guard let usual = try? Self.parse([]), let usualLimits = try? SourceLimitOptions.parse([]) else { return [] }
        let options: [(name: String, isGiven: Bool)] = [
            ("--watermarks", watermarks != nil), ("--memory", memory != nil),
            ("--cache-policy", cachePolicy != usual.cachePolicy),
            ("--local-cache", localCache != nil), ("--local-cache-size", localCacheSize != usual.localCacheSize),
            ("--heuristic-lifetime", heuristicLifetime != usual.heuristicLifetime),
            ("--engine", engine != usual.engine), ("--concurrency", concurrency != nil),
            ("--host-concurrency", hostConcurrency != usual.hostConcurrency),
            ("--host-rate", hostRate != nil), ("--host-patience", hostPatience != usual.hostPatience),
            ("--max-wait", maxWait != nil),
            ("--fetch-timeout", fetchTimeout != usual.fetchTimeout),
            ("--stall-timeout", stallTimeout != usual.stallTimeout),
            ("--connect-timeout", connectTimeout != usual.connectTimeout),
        ]
        return (allowRead.isEmpty ? [] : ["--allow-read"]) + (allowBucket.isEmpty ? [] : ["--allow-bucket"])
            + (readsSources ? [] : access.names)
            + options.filter(\.isGiven).map(\.name) + limits.names(beside: usualLimits)
    }

    /// Limit of a wait, seconds: an operator may be waiting for the run.
    private static let longestWaitOfRun = 120.0

    /// Number of jobs of a worker of a run, which no other work shares.
    private static let concurrencyOfRun = 64

    /// Least memory of a worker for renders, MiB: a JPEG of 12 megapixels, as phones make them, takes 9 MiB, and a PNG
    /// of that size 17 MiB. With much less, nearly every image is refused as `too_costly`.
    private static let leastMemory = 16

    /// Number of workers of a run that was given no number: one for each processor, or fewer if they share little
    /// memory.
    var usualWorkers: Int {
        let processors = ProcessInfo.processInfo.activeProcessorCount
        return memory.map { max(1, min(processors, $0 / Self.leastMemory)) } ?? processors
    }

    /// - Parameter workers: number of workers that share the memory.
    /// - Throws: `ValidationError` if the memory is out of bounds, or too little for each worker.
    static func checkMemory(_ memory: Int?, workers: Int = 1) throws {
        try OptionRange.check("--memory", memory, 1...1_048_576, " MiB")
        guard let memory, memory / workers < leastMemory else { return }
        let reason =
            "a JPEG of 12 megapixels takes 9 MiB, and each image that does not fit is refused. Give at least "
            + "\(leastMemory * workers)"
        if workers == 1 { throw ValidationError("--memory \(memory) is too little for a render: \(reason).") }
        throw ValidationError(
            "--memory \(memory) is too little for \(workers) workers, which share it: \(reason), or fewer --workers."
        )
    }

    /// The same options for each of `workers` processes. They share the memory: without a number, each gets its
    /// fraction of the default, but at least 512 MiB, so that one large image fits.
    func arguments(workers: Int) -> [String] {
        var arguments = allowRoot.flatMap { ["--allow-root", $0] } + allowRead.flatMap { ["--allow-read", $0] }
        arguments += allowBucket.flatMap { ["--allow-bucket", $0] }
        let share = memory.map { $0 / workers } ?? max(512, (MemoryBudget.process.bytes / workers) >> 20)
        arguments += ["--memory", String(share)]
        arguments += access.arguments + allowType.flatMap { ["--allow-type", $0] }
        if let watermarks { arguments += ["--watermarks", FileNames.absolutePath(watermarks)] }
        arguments += ["--cache-policy", cachePolicy, "--engine", engine]
        arguments += ["--concurrency", String(concurrency ?? Self.concurrencyOfRun)]
        arguments += ["--host-concurrency", String(hostConcurrency)]
        if let hostRate { arguments += ["--host-rate", String(hostRate)] }
        arguments += ["--host-patience", String(hostPatience)]
        arguments += ["--max-wait", String(maxWait ?? Self.longestWaitOfRun), "--fetch-timeout", String(fetchTimeout)]
        arguments += ["--stall-timeout", String(stallTimeout), "--connect-timeout", String(connectTimeout)]
        arguments += ["--heuristic-lifetime", String(heuristicLifetime)] + limits.arguments
        if let localCache {
            arguments += ["--local-cache", FileNames.absolutePath(localCache)]
            arguments += ["--local-cache-size", String(localCacheSize)]
        }
        return arguments
    }
}
