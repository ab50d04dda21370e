import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine

/// `megaton cache show`
struct CacheShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show the cache entries of a source. Exits 1 if there are none.",
        discussion: """
            Examples:
              megaton cache show https://example.org/a.jpg
              megaton cache show https://example.org/a.jpg --rendition card --json

            The URL stands for its entries with any query. All keys of the cache are read in small steps. The 10,000 \
            largest entries are shown.
            \(RedisOptions.environmentHelp)
            """
    )

    @Argument(help: ArgumentHelp("URL of the source.", valueName: "url"))
    var url: String

    @Option(
        name: .long,
        help: ArgumentHelp("Only renditions that were made under this name. Repeatable.", valueName: "name")
    )
    var rendition: [String] = []

    @Flag(name: .long, help: "Print one JSON object for each entry.")
    var json = false

    @OptionGroup var redis: RedisOptions

    /// Maximum number of entries that are shown.
    private static let limit = 10_000

    mutating func validate() throws { try SourceChecks.check(urls: [url]) }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.connected(redis, needsCache: true) { queue, caches in
                let selection = CacheSelection(urls: [url].compactMap { URL(string: $0) }, renditions: rendition)
                // One more than is shown: then there are others.
                let entries = try await CacheRanking(caches: caches).first(Self.limit + 1, by: .bytes, of: selection)
                if entries.isEmpty {
                    var failure: Explanation.Failure?
                    if let request = Job(source: url).sourceRequest {
                        let logger = LogOptions.logger("megaton", level: .error)
                        failure = try await Explanation.read(request, [], queue: queue, caches: caches, logger: logger)
                            .original.failure
                    }
                    throw CLIError.notFound(Self.lack(of: url, failure))
                }
                try CacheEntryText.print(Array(entries.prefix(Self.limit)), asJSON: json)
                if entries.count > Self.limit {
                    Terminal.note(
                        "megaton: the \(Self.limit) largest entries are shown, and more exist; name one of them with "
                            + "--rendition, or count all with megaton cache purge --dry-run \(url)"
                    )
                }
            }
        }
    }

    /// The message about a source without entries.
    ///
    /// - Parameter failure: a failure of the source that the cache remembers.
    static func lack(of url: String, _ failure: Explanation.Failure?) -> String {
        guard let failure else { return "the cache has no entry of \(url)." }
        return "the cache has no entry of \(url); it remembers the failure \(failure.code) for another "
            + "\(CacheEntryText.time(failure.left)): jobs fail so, without asking the origin. megaton explain shows it."
    }
}

/// `megaton cache top`
struct CacheTopCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "top",
        abstract: "List the largest, the most read or the oldest entries of the cache.",
        discussion: """
            Examples:
              megaton cache top
              megaton cache top --by age --limit 100 --json

            All keys of the cache are read in small steps, which takes some seconds for each million.
            \(RedisOptions.environmentHelp)
            """
    )

    @Option(
        name: .long,
        help: "Order: bytes, age, or hits, which Redis counts with the maxmemory-policy allkeys-lfu."
    )
    var by = CacheRanking.Order.bytes.rawValue

    @Option(name: .long, help: "Maximum number of entries.")
    var limit = 20

    @Flag(name: .long, help: "Print one JSON object for each entry.")
    var json = false

    @OptionGroup var redis: RedisOptions

    mutating func validate() throws {
        if CacheRanking.Order(rawValue: by) == nil {
            throw ValidationError("--by must be bytes, hits or age, not \"\(by)\".")
        }
        try OptionRange.check("--limit", limit, 1...10_000)
    }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.connected(redis, needsCache: true) { _, caches in
                let order = CacheRanking.Order(rawValue: by) ?? .bytes
                let entries = try await CacheRanking(caches: caches).first(limit, by: order) { count in
                    guard Terminal.isInteractive else { return }
                    Terminal.status("megaton: \(Counted.of(count, "entry", "entries")) read")
                }
                if Terminal.isInteractive { Terminal.status("") }
                try CacheEntryText.print(entries, asJSON: json)
            }
        }
    }
}

/// Entries of the cache as lines.
enum CacheEntryText {
    /// Prints a line for each entry.
    static func print(_ entries: [CacheListing.Entry], asJSON: Bool) throws {
        if !asJSON { try Terminal.output(heading) }
        for entry in entries {
            guard try Terminal.output(asJSON ? try JSONText.line(entry) : line(entry)) else { return }
        }
    }

    private static let heading = row("bytes", "age", "fresh for", "hits", "what", "source")

    static func line(_ entry: CacheListing.Entry) -> String {
        let size = entry.width.flatMap { width in entry.height.map { " \(width)x\($0)" } } ?? ""
        let name = entry.rendition.map { " \($0)" } ?? ""
        let validator = entry.etag ?? entry.lastModified
        return row(
            Counted.bytes(entry.bytes),
            time(entry.age),
            entry.freshFor > 0 ? time(entry.freshFor) : "stale",
            entry.hits.map(String.init) ?? "-",
            "\(entry.kind.rawValue)\(name)\(size)",
            (entry.source ?? entry.key) + (validator.map { "  \($0)" } ?? "")
        )
    }

    private static func row(
        _ bytes: String,
        _ age: String,
        _ fresh: String,
        _ hits: String,
        _ what: String,
        _ source: String
    ) -> String {
        func cell(_ text: String, _ width: Int) -> String {
            text + String(repeating: " ", count: max(1, width - TextColumns.count(text)))
        }
        return cell(bytes, 11) + cell(age, 9) + cell(fresh, 11) + cell(hits, 6) + cell(what, 30) + source
    }

    /// A time in its largest unit: "3 h".
    static func time(_ seconds: Double) -> String {
        let seconds = max(0, seconds)
        for (unit, length) in [("d", 86_400.0), ("h", 3600), ("min", 60)] where seconds >= length {
            return "\(Int(seconds / length)) \(unit)"
        }
        return "\(Int(seconds)) s"
    }
}
