import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonRedis

/// `megaton cache purge`
struct CachePurgeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purge",
        abstract: "Delete originals and renditions from the cache. Exits 1 if there are none.",
        discussion: """
            Examples:
              megaton cache purge https://example.org/a.jpg
              megaton cache purge --host example.org --dry-run
              megaton cache purge --prefix https://example.org/2025/ --rendition card --yes

            A URL stands for its entries with any query. URLs, --host and --prefix add to each other, and --rendition \
            leaves only its names of all these. Remembered failures of the sources are deleted too. Work that \
            has begun before does not bring deleted entries back, and near caches drop their copies. All keys of the \
            cache are read in small steps, which takes some seconds for each million.
            \(RedisOptions.environmentHelp)
            """
    )

    @OptionGroup var sources: SourceArguments

    @Option(
        name: .long,
        help: ArgumentHelp(
            "All sources whose URLs begin so, such as https://example.org/2026/. Repeatable.",
            valueName: "url"
        )
    )
    var prefix: [String] = []

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Only renditions that were made under this name; of all sources, if none are named. Repeatable.",
            valueName: "name"
        )
    )
    var rendition: [String] = []

    @Flag(name: .customLong("dry-run"), help: "Count entries and remembered failures, and delete nothing.")
    var dryRun = false

    @Flag(name: .shortAndLong, help: "Do not ask for confirmation of --host, --prefix and --rendition.")
    var yes = false

    @Flag(name: .long, help: "Print one JSON object.")
    var json = false

    @OptionGroup var redis: RedisOptions

    mutating func validate() throws {
        if sources.isEmpty && prefix.isEmpty && rendition.isEmpty {
            throw ValidationError("Name URLs, --host, --prefix or --rendition.")
        }
        for prefix in prefix where prefix.contains("?") {
            throw ValidationError(
                "--prefix \"\(prefix)\" has a query, and URLs are compared without their queries: leave it out from the ?."
            )
        }
        for prefix in prefix where !prefix.contains("://") {
            throw ValidationError("--prefix must look like https://example.org/2026/, not \"\(prefix)\".")
        }
        if rendition.contains("") { throw ValidationError("--rendition is empty; it must be a name.") }
    }

    func run() async throws {
        try await reportingFailures {
            // Before the entries are counted, which may take long.
            guard !asks || Terminal.canAsk else {
                throw CLIError.usage(
                    "this may delete many entries from the cache, and there is no terminal to ask on; add --yes to "
                        + "confirm. --dry-run counts them. Nothing was deleted."
                )
            }
            try await InspectorSession.connected(redis, needsCache: true) { queue, caches in
                let logger = LogOptions.logger("megaton", level: .error)
                let purge = CachePurge(caches: caches, queue: queue, logger: logger)
                let selection = CacheSelection(
                    urls: sources.parsedURLs,
                    hosts: sources.host,
                    prefixes: prefix,
                    renditions: rendition
                )
                if asks {
                    let count = try await run(purge, selection, isDryRun: true)
                    // The cache is read again after the answer: without a question, nothing is deleted.
                    if count.isEmpty { return try report(count) }
                    try confirm(count)
                }
                try report(try await run(purge, selection, isDryRun: dryRun))
            }
        }
    }

    /// Whether the deletion needs a confirmation: the arguments do not name each source.
    private var asks: Bool {
        let namesEach = sources.host.isEmpty && prefix.isEmpty && !sources.isEmpty
        return !dryRun && !yes && !namesEach
    }

    private func report(_ result: CachePurge.Result) throws {
        try Terminal.output(json ? try JSONText.pretty(result) : Self.sentence(result, isDryRun: dryRun))
        if result.withoutSource > 0 {
            let entries = Counted.of(result.withoutSource, "entry has", "entries have")
            Terminal.note(
                "megaton: \(entries) no URL: of local files, of bytes in a job, or of a version before 0.3.0. Only "
                    + "--rendition NAME finds them; the others stay until they expire."
            )
        }
        if result.isEmpty { throw ExitCode(1) }
    }

    /// Deletes or counts, with the progress on a terminal.
    private func run(
        _ purge: CachePurge,
        _ selection: CacheSelection,
        isDryRun: Bool
    ) async throws(RedisError) -> CachePurge.Result {
        defer { if Terminal.isInteractive { Terminal.status("") } }
        return try await purge.run(selection, isDryRun: isDryRun) { result in
            guard Terminal.isInteractive else { return }
            Terminal.status("megaton: \(Counted.of(result.scanned, "entry", "entries")) read")
        }
    }

    /// Asks for confirmation on the terminal.
    private func confirm(_ result: CachePurge.Result) throws {
        let failures = Self.failures(result).map { ", and forget \($0)" } ?? ""
        guard Terminal.confirms("megaton: delete \(Self.things(result)) from the cache\(failures)?") else {
            throw CLIError.notFound("nothing was deleted.")
        }
    }

    private static func things(_ result: CachePurge.Result) -> String {
        let originals = Counted.of(result.originals, "original")
        return "\(originals) and \(Counted.of(result.renditions, "rendition")) (\(Counted.bytes(result.bytes)))"
    }

    /// The remembered failures; nil if there are none.
    private static func failures(_ result: CachePurge.Result) -> String? {
        result.failures == 0 ? nil : Counted.of(result.failures, "failure")
    }

    static func sentence(_ result: CachePurge.Result, isDryRun: Bool) -> String {
        let failures = failures(result).map { ", \($0) forgotten" } ?? ""
        return "\(things(result)) \(isDryRun ? "would be deleted" : "deleted")\(failures)"
    }
}
