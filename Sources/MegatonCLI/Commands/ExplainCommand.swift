import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// `megaton explain`
struct ExplainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Show the state of a source and its renditions in the cluster, and change nothing.",
        discussion: """
            Examples:
              megaton explain https://example.org/a.jpg --size 320 --json
              megaton explain https://example.org/a.jpg --rendition width=400,height=300

            It shows the cache keys, the nearest cache that has each, entries with their age and freshness, remembered \
            failures, work under way, the limits of the host, and the engine that would render. Of the caches of \
            workers, --local-cache examines that of this machine; the memory of processes cannot be examined.
            \(RedisOptions.environmentHelp)
            """
    )

    @Argument(help: ArgumentHelp("URL of the source, as in its job.", valueName: "url"))
    var url: String

    @OptionGroup var renditions: RenditionOptions

    @Option(
        name: .long,
        help: ArgumentHelp("Credential of the job, by its name: entries of each are separate.", valueName: "name")
    )
    var credential: String?

    @Option(
        name: .long,
        help: "The --engine of the workers: auto, vips or planes.",
        completion: .list(RenderEngineChoice.allCases.map(\.rawValue))
    )
    var engine = RenderEngineChoice.auto.rawValue

    @Option(
        name: .customLong("local-cache"),
        help: ArgumentHelp("The --local-cache of the workers of this machine, to look into it too.", valueName: "dir"),
        completion: .directory
    )
    var localCache: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "The --watermarks of the workers, if a rendition names an image: its bytes are a part of the cache key.",
            valueName: "dir"
        ),
        completion: .directory
    )
    var watermarks: String?

    @Flag(name: .long, help: "Print one JSON object.")
    var json = false

    @OptionGroup var redis: RedisOptions

    mutating func validate() throws {
        try SourceChecks.check(urls: [url])
        if RenderEngineChoice(rawValue: engine) == nil {
            throw ValidationError("--engine must be auto, vips or planes, not \"\(engine)\".")
        }
        if watermarks?.isEmpty == true { throw ValidationError("--watermarks is empty; it must name a directory.") }
        if localCache?.isEmpty == true { throw ValidationError("--local-cache is empty; it must name a directory.") }
        if let credential, !Job.isName(credential) {
            throw ValidationError("--credential must be a name of \(Job.nameRule)")
        }
    }

    func run() async throws {
        try await reportingFailures {
            let renditions = try await resolvedRenditions()
            try await InspectorSession.connected(redis, needsCache: true) { queue, caches in
                let job = Job(source: url, credential: credential)
                guard let request = job.sourceRequest else { throw CLIError.usage("\(url) is not a URL.") }
                let shared = try await Explanation.read(
                    request,
                    renditions,
                    engine: RenderEngineChoice(rawValue: engine) ?? .auto,
                    queue: queue,
                    caches: caches,
                    logger: LogOptions.logger("megaton", level: .error)
                )
                let explanation = try await examined(shared)
                try Terminal.output(json ? try JSONText.pretty(explanation) : Self.text(explanation))
            }
        }
    }

    /// The renditions with the pixels of their watermarks.
    private func resolvedRenditions() async throws -> [Rendition] {
        var marks: Watermarks?
        if let watermarks { marks = try await WorkerOptions.watermarks(in: watermarks) }
        let wanted = try renditions.renditions()
        try WatermarkCheck.requireImages(of: wanted, among: marks)
        return try wanted.map { try Watermarks.resolve($0, in: marks) }
    }

    /// The same with the copies in `--local-cache`, if it was given: read on a thread of its own, as they are files.
    private func examined(_ explanation: Explanation) async throws -> Explanation {
        guard let localCache else { return explanation }
        let folder = FileNames.absolutePath(localCache)
        let thread = ThreadPool(name: "megaton-copies", count: 1)
        defer { thread.stop() }
        do {
            return try await thread.run {
                try explanation.examining(localCache: folder, trustedFor: WorkerOptions.localCacheTTL)
            }
        } catch let error as ImagePipeline.Error {
            throw CLIError.usage("--local-cache: \(error.message)")
        }
    }

    static func text(_ explanation: Explanation) -> String {
        var lines = [explanation.url]
        for item in [explanation.original] + explanation.renditions {
            lines += Self.lines(item, localCache: explanation.localCache)
        }
        if let host = explanation.host { lines += Self.lines(host) }
        let other = explanation.localCache == nil ? "; --local-cache DIR examines the disk cache of this machine" : ""
        return (lines + ["not examined: the memory of processes\(other)"]).joined(separator: "\n")
    }

    /// The nearest cache that has an entry, and the one of this machine if it was examined.
    private static func tier(_ item: Explanation.Item, _ localCache: String?) -> String {
        let place =
            switch item.tier {
            case .localCache: "local cache"
            case .sharedCache: "shared cache"
            case .none: "none"
            }
        guard let localCache else { return place }
        guard let copy = item.copy else { return "\(place); no copy in \(localCache)" }
        let (size, age) = (Counted.bytes(copy.bytes), CacheEntryText.time(copy.age))
        let use = item.tier == .localCache ? "" : ": workers ask the shared cache whether it is still valid"
        return "\(place); the copy in \(localCache) has \(size) and was made \(age) ago\(use)"
    }

    private static func lines(_ item: Explanation.Item, localCache: String?) -> [String] {
        var lines = [
            "\(item.name): \(item.next)", "  key        \(item.key) at \(item.server)",
            "  tier       \(tier(item, localCache))",
        ]
        if let entry = item.entry {
            let fresh = entry.freshFor > 0 ? "fresh for \(CacheEntryText.time(entry.freshFor))" : "stale"
            lines.append("  entry      \(Counted.bytes(entry.bytes)), \(CacheEntryText.time(entry.age)) old, \(fresh)")
            let validators = [entry.etag.map { "ETag \($0)" }, entry.lastModified.map { "Last-Modified \($0)" }]
            lines.append("  validators \(validators.compactMap { $0 }.joined(separator: ", ").nonEmpty ?? "none")")
        } else {
            lines.append("  entry      none in the shared cache")
        }
        if let failure = item.failure {
            let kind = failure.isBinding ? ", by the origin's Retry-After" : ""
            let message = JobRunner.naming(WorkerOptions.optionNames, in: failure.message)
            lines.append("  failure    \(message) (for another \(CacheEntryText.time(failure.left))\(kind))")
        }
        if let flight = item.flight {
            let waiters = flight.hasWaiters ? "others wait" : "no other waits"
            lines.append("  under way  at \(flight.owner), lease of \(CacheEntryText.time(flight.left)), \(waiters)")
        }
        if let engine = item.engine {
            lines.append("  engine     \(engine.engine.map { "\($0): " } ?? "")\(engine.reason)")
        }
        return lines
    }

    private static func lines(_ host: Explanation.Host) -> [String] {
        var lines = ["host \(host.name)", "  requests   \(host.fetching) under way"]
        if host.factor < 1 { lines.append("  limits     \(Int(host.factor * 100)) % of the usual ones") }
        if host.blockedFor > 0 { lines.append("  blocked    for another \(CacheEntryText.time(host.blockedFor))") }
        if host.openFor > 0 {
            let failures = Counted.of(host.failures, "failure")
            lines.append("  circuit    open for another \(CacheEntryText.time(host.openFor)), after \(failures)")
        }
        return lines
    }
}

extension String {
    fileprivate var nonEmpty: String? { isEmpty ? nil : self }
}
