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
            It shows the cache keys, entries with their age and freshness, remembered failures, work under way, the \
            limits of the host, and the engine that would render. Near caches of workers are not examined.
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

    @Option(name: .long, help: "The --engine of the workers: auto, vips or planes.")
    var engine = RenderEngineChoice.auto.rawValue

    @Flag(name: .long, help: "Print one JSON object.")
    var json = false

    @OptionGroup var redis: RedisOptions

    mutating func validate() throws {
        try SourceChecks.check(urls: [url])
        if RenderEngineChoice(rawValue: engine) == nil {
            throw ValidationError("--engine must be auto, vips or planes, not \"\(engine)\".")
        }
        if let credential, !Job.isName(credential) {
            throw ValidationError("--credential must be a name of 1 to 128 letters, digits and . : - _")
        }
    }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.connected(redis, needsCache: true) { queue, caches in
                let job = Job(source: url, credential: credential)
                guard let request = job.sourceRequest else { throw CLIError.usage("\(url) is not a URL.") }
                let explanation = try await Explanation.read(
                    request,
                    renditions.renditions(),
                    engine: RenderEngineChoice(rawValue: engine) ?? .auto,
                    queue: queue,
                    caches: caches,
                    logger: LogOptions.logger("megaton", level: .error)
                )
                try Terminal.output(json ? try JSONText.pretty(explanation) : Self.text(explanation))
            }
        }
    }

    static func text(_ explanation: Explanation) -> String {
        var lines = [explanation.url]
        for item in [explanation.original] + explanation.renditions { lines += Self.lines(item) }
        if let host = explanation.host { lines += Self.lines(host) }
        return lines.joined(separator: "\n")
    }

    private static func lines(_ item: Explanation.Item) -> [String] {
        var lines = ["\(item.name): \(item.next)", "  key        \(item.key) at \(item.server)"]
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
            lines.append("  failure    \(failure.message) (for another \(CacheEntryText.time(failure.left))\(kind))")
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
