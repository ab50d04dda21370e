import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonCore
import MegatonPipeline
import MegatonServer

/// Options of the route of images: who may ask for which images, and limits.
struct ImageRouteOptions: ParsableArguments {
    @Flag(
        name: .customLong("unsigned-images"),
        help: "Serve image URLs without a signature, in the place of MEGATON_KEY; only with a loopback address."
    )
    var allowsUnsigned = false

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Where images are rendered that the cache does not have: local, in the server itself, or cluster, by the "
                + "workers of the queue.",
            valueName: "place"
        )
    )
    var render = Self.local

    @Option(
        name: .customLong("image-presets"),
        help: ArgumentHelp(
            "File with presets of image URLs, one a line: name=resize:fill:300:300/quality:70.",
            valueName: "file"
        ),
        completion: .file()
    )
    var presets: String?

    @Flag(name: .customLong("presets-only"), help: "Allow image URLs with names of presets only, and no other options.")
    var presetsOnly = false

    @Option(
        name: .customLong("allowed-sizes"),
        help: ArgumentHelp(
            "Allow only these widths and heights in image URLs: 320,640,1280. All by default.",
            valueName: "list"
        )
    )
    var allowedSizes: String?

    @Option(
        name: .customLong("image-max-age"),
        help: ArgumentHelp(
            "How long clients may use an image whose origin states no lifetime.",
            valueName: "seconds"
        )
    )
    var maximumAge = 3600

    @Option(
        name: .customLong("image-limit"),
        help: ArgumentHelp(
            "Images that are loaded or rendered at a time; requests for further ones, and more than four times as many "
                + "requests, are answered with 503.",
            valueName: "number"
        )
    )
    var limit = 256

    @Option(
        name: .customLong("image-rate"),
        help: ArgumentHelp(
            "Requests for images per second of one client address; it may send those of ten seconds at once, and "
                + "at least ten. No limit by default.",
            valueName: "number"
        )
    )
    var rate: Double?

    @Option(
        name: .customLong("trusted-proxy"),
        help: ArgumentHelp(
            "Proxy whose X-Forwarded-For names the client for --image-rate: an address or a range such as 10.0.0.0/8. "
                + "Repeatable.",
            valueName: "cidr"
        )
    )
    var trustedProxy: [String] = []

    @Option(
        name: .customLong("fallback-image"),
        help: ArgumentHelp(
            "Image that is sent, with the status of the error, if one cannot be loaded or read.",
            valueName: "file"
        ),
        completion: .file()
    )
    var fallback: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Directory of images for --image-watermark: at most 64 files of 8 MiB, which are read at the start. With "
                + "--render cluster the workers need the same directory.",
            valueName: "dir"
        ),
        completion: .directory
    )
    var watermarks: String?

    @Option(
        name: .customLong("image-watermark"),
        help: ArgumentHelp(
            "File in --watermarks that the option watermark (wm) of image URLs draws. Without it, the option is "
                + "refused.",
            valueName: "name"
        )
    )
    var watermark: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Memory for images that are rendered at the same time, estimated from their headers. By default half of "
                + "the memory of the machine or control group, and at least 512 MiB.",
            valueName: "mib"
        )
    )
    var memory: Int?

    @Option(
        name: .customLong("host-concurrency"),
        help: "Maximum number of concurrent requests of the whole cluster to one host; as that of the workers."
    )
    var hostConcurrency = HostLimits().concurrency

    @Option(
        name: .customLong("host-rate"),
        help: ArgumentHelp(
            "Maximum number of requests per second of the whole cluster to one host; as that of the workers.",
            valueName: "number"
        )
    )
    var hostRate: Double?

    private static let local = "local"
    private static let cluster = "cluster"
    private static let keyVariable = "MEGATON_KEY"
    private static let saltVariable = "MEGATON_SALT"
    /// The variables that have keys and salts.
    static let secretVariables: Set<String> = [keyVariable, saltVariable]
    /// Maximum size of a file of presets, bytes.
    private static let maximumPresets = 1 << 20
    /// Images that are being sent may have as much memory as renders, divided by this.
    private static let sendingShare = 4
    /// Maximum number of images that are loaded at a time.
    private static let maximumLoads = 256

    mutating func validate() throws {
        if ![Self.local, Self.cluster].contains(render) {
            throw ValidationError("--render must be local or cluster, not \"\(render)\".")
        }
        if presets?.isEmpty == true { throw ValidationError("--image-presets is empty; it must name a file.") }
        if fallback?.isEmpty == true { throw ValidationError("--fallback-image is empty; it must name a file.") }
        if watermarks?.isEmpty == true { throw ValidationError("--watermarks is empty; it must name a directory.") }
        if watermark != nil && watermarks == nil {
            throw ValidationError("--image-watermark needs the directory of the image: give --watermarks DIR.")
        }
        if presetsOnly && presets == nil {
            throw ValidationError("--presets-only allows no URL without presets: give --image-presets FILE.")
        }
        if let allowedSizes, Self.sizes(allowedSizes) == nil {
            throw ValidationError(
                "--allowed-sizes must be numbers from 1 to \(Rendition.maximumSide) with commas in between, such as "
                    + "320,640,1280, not \"\(allowedSizes)\"."
            )
        }
        try OptionRange.check("--image-max-age", maximumAge, 0...31_536_000, " seconds")
        try OptionRange.check("--image-limit", limit, 1...65_536)
        try OptionRange.check("--image-rate", rate, 0.01...1e6, " a second")
        try WorkerOptions.checkMemory(memory)
        try OptionRange.check("--host-concurrency", hostConcurrency, 1...100_000)
        try OptionRange.check("--host-rate", hostRate, 0.001...1e6, " a second")
        for text in trustedProxy where AddressRange(text) == nil {
            throw ValidationError(
                "--trusted-proxy must be an IP address, or a range without bits behind its prefix such as 10.0.0.0/8, "
                    + "not \"\(text)\"."
            )
        }
    }

    /// Nil if the text is not a list of sizes.
    private static func sizes(_ text: String) -> Set<Int>? {
        let sizes = text.split(separator: ",", omittingEmptySubsequences: false).map { Int($0) }
        guard sizes.allSatisfy({ $0.map((1...Rendition.maximumSide).contains) ?? false }) else { return nil }
        return Set(sizes.compactMap { $0 })
    }

    // MARK: - Server

    /// The server of images; nil if it has neither a key nor the permission to do without.
    ///
    /// - Throws: `CLIError` for the keys and the files.
    func server(
        _ redis: RedisOptions,
        _ access: SourceAccessOptions,
        _ limits: SourceLimitOptions,
        environment: [String: String] = ProcessInfo.processInfo.environment,
        logger: Logger
    ) async throws -> ImageServer? {
        let (keys, salts) = (environment[Self.keyVariable] ?? "", environment[Self.saltVariable] ?? "")
        if keys.isEmpty && salts.isEmpty && !allowsUnsigned {
            try refuseTyped(access, limits)
            return nil
        }
        var settings = ImageURLSettings(signature: try signature(keys, salts))
        settings.presetsOnly = presetsOnly
        settings.sizes = allowedSizes.flatMap(Self.sizes)
        if let presets {
            settings.presets = try Self.presets(in: presets)
            do {
                try settings.presets.check(settings)
            } catch {
                throw CLIError.usage(FieldProblem.sentence("--image-presets \(presets): \(error)"))
            }
        }
        settings.watermark = watermark
        var configuration = ImageServer.Configuration(settings)
        configuration.maximumAge = maximumAge
        configuration.limit = limit
        configuration.rate = rate.map { ClientRate(rate: $0) }
        configuration.proxies = trustedProxy.compactMap(AddressRange.init)
        if let fallback { configuration.fallback = try Self.fallback(in: fallback) }
        var worker = try worker(redis, access, limits, logger: logger)
        worker.watermarks = try await loadedWatermarks()
        configuration.sendingLimit = worker.memory.bytes / Self.sendingShare
        let renditions = try RenditionService(
            worker,
            asksWorkers: render == Self.cluster,
            logger: logger,
            onHungRender: { _exit(70) }
        )
        return ImageServer(configuration, renditions: renditions)
    }

    /// The images of `--watermarks`, among which is that of `--image-watermark`; nil without the latter, as no URL
    /// draws another one.
    private func loadedWatermarks() async throws -> Watermarks? {
        guard let watermarks else { return nil }
        guard let watermark else {
            if OptionOrigins.isConfigured("--watermarks") { return nil }
            throw CLIError.usage(
                "--watermarks has no effect on its own: give --image-watermark NAME, the file that image URLs draw."
            )
        }
        let images = try await WorkerOptions.watermarks(in: watermarks)
        try WatermarkCheck.requireImage(watermark, among: images)
        return images
    }

    private func signature(_ keys: String, _ salts: String) throws -> ImageSignature {
        do {
            return try ImageSignature(keys: keys, salts: salts, allowsUnsigned: allowsUnsigned)
        } catch {
            let option = allowsUnsigned ? " (--unsigned-images)" : ""
            throw CLIError.usage(
                FieldProblem.sentence("\(Self.keyVariable) and \(Self.saltVariable)\(option): \(error)")
            )
        }
    }

    /// Refuses options that were typed for nothing; those of variables and files are defaults for many commands.
    private func refuseTyped(_ access: SourceAccessOptions, _ limits: SourceLimitOptions) throws {
        // The parser always accepts an empty command line.
        guard let usual = try? Self.parse([]), let usualLimits = try? SourceLimitOptions.parse([]) else { return }
        let options: [(name: String, isGiven: Bool)] = [
            ("--render", render != usual.render), ("--image-presets", presets != nil), ("--presets-only", presetsOnly),
            ("--allowed-sizes", allowedSizes != nil), ("--image-max-age", maximumAge != usual.maximumAge),
            ("--image-limit", limit != usual.limit), ("--image-rate", rate != nil),
            ("--trusted-proxy", !trustedProxy.isEmpty), ("--fallback-image", fallback != nil),
            ("--watermarks", watermarks != nil), ("--image-watermark", watermark != nil),
            ("--memory", memory != nil), ("--host-concurrency", hostConcurrency != usual.hostConcurrency),
            ("--host-rate", hostRate != nil),
        ]
        let given = options.filter(\.isGiven).map(\.name) + access.names + limits.names(beside: usualLimits)
        guard let name = given.first(where: { !OptionOrigins.isConfigured($0) }) else { return }
        throw CLIError.usage(
            "\(name) has an effect on images only, and the server serves none: set \(Self.keyVariable) and "
                + "\(Self.saltVariable), or give --unsigned-images on a loopback address."
        )
    }

    /// The presets of a file. Blocks the thread meanwhile.
    ///
    /// - Throws: `CLIError` with the fault.
    static func presets(in path: String) throws -> ImagePresets {
        let data = try content(of: path, atMost: maximumPresets, "--image-presets")
        if data.count > maximumPresets {
            throw CLIError.usage("--image-presets \(path) has more than \(maximumPresets) bytes, which is the limit.")
        }
        guard let text = String(validating: data, as: UTF8.self) else {
            throw CLIError.usage("--image-presets \(path) is not a text in UTF-8.")
        }
        do {
            return try ImagePresets(text.split(whereSeparator: \.isNewline).map(String.init))
        } catch {
            throw CLIError.usage(FieldProblem.sentence("--image-presets \(path): \(error)"))
        }
    }

    /// The image of a file. Blocks the thread meanwhile.
    ///
    /// - Throws: `CLIError` with the fault.
    static func fallback(in path: String) throws -> FallbackImage {
        let data = try content(of: path, atMost: FallbackImage.maximumSize, "--fallback-image")
        do {
            return try FallbackImage(data)
        } catch {
            throw CLIError.usage(FieldProblem.sentence("--fallback-image \(path) \(error)"))
        }
    }

    /// The beginning of a file: one byte more than the limit if it is larger.
    private static func content(of path: String, atMost limit: Int, _ option: String) throws -> Data {
        do {
            let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
            return try file.read(upToCount: limit + 1) ?? Data()
        } catch {
            throw CLIError.usage(FieldProblem.sentence("\(option) \(path) cannot be read: \(CLIError.reason(error))"))
        }
    }

    // MARK: - Pipeline

    /// The options in the place of the library's settings, as `Worker.Configuration.optionNames` has them.
    private static let optionNames = [
        "; add one to the roots of Configuration.fileAccess": ": local files are never sources here",
        "the memory of this process for renders": "the memory for renders (--memory)",
        "the directory of Configuration.watermarks, and start the process again":
            "the directory of --watermarks, and start the server again",
    ].merging(SourceAccessOptions.optionNames) { option, _ in option }
        .merging(SourceLimitOptions.optionNames) { option, _ in option }

    /// The pipeline's configuration, in the form of a worker's.
    private func worker(
        _ redis: RedisOptions,
        _ access: SourceAccessOptions,
        _ limits: SourceLimitOptions,
        logger: Logger
    ) throws -> Worker.Configuration {
        let controls = try redis.controls()
        var configuration = Worker.Configuration(control: controls[0])
        configuration.furtherControls = Array(controls.dropFirst())
        configuration.caches = try redis.caches()
        configuration.keys = redis.keys
        configuration.optionNames = Self.optionNames
        configuration.concurrency = min(limit, Self.maximumLoads)
        limits.apply(to: &configuration)
        configuration.addressPolicy = access.addressPolicy
        configuration.sources = try access.sources()
        configuration.s3 = access.s3
        configuration.caFile = access.caFile
        configuration.hostLimits.concurrency = hostConcurrency
        configuration.hostLimits.rate = hostRate
        if let memory { configuration.memory = MemoryBudget(bytes: memory << 20) }
        let temporary = ProcessInfo.processInfo.environment["TMPDIR"] ?? ""
        if !temporary.isEmpty { configuration.temporaryDirectory = URL(fileURLWithPath: temporary, isDirectory: true) }
        if let file = try access.credentialsFile() {
            configuration.credentials = file.credentials
            logger.info("credentials for sources loaded", metadata: ["credentials": "\(file.credentials)"])
            if file.isExposed {
                logger.warning("the credentials file is readable by others; run chmod 600 on it")
            }
        }
        return configuration
    }
}
