import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine

/// `megaton stats`
struct StatsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stats",
        abstract: "Show the statistics of the shared cache.",
        discussion: """
            Examples:
              megaton stats
              megaton stats --json

            Counters start when the queue is created; workers add theirs every second.
            \(RedisOptions.environmentHelp)
            """
    )

    @OptionGroup var redis: RedisOptions

    @Flag(name: .long, help: "Print one JSON object.")
    var json = false

    @Flag(name: .long, help: "Print the text format of Prometheus.")
    var prometheus = false

    @Option(name: .customLong("scan-seconds"), help: "Time limit for scanning the cache for memory by kind of key.")
    var scanSeconds: Double = 2

    mutating func validate() throws {
        if json && prometheus { throw ValidationError("--json does not go with --prometheus; choose one.") }
        try OptionRange.check("--scan-seconds", scanSeconds, 0...60)
    }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.run(redis, needsCache: true) { inspector in
                let statistics = try await inspector.cacheStatistics(budget: .seconds(scanSeconds))
                if json {
                    try Terminal.output(JSONText.pretty(Report(statistics: statistics)))
                } else if prometheus {
                    try Terminal.output(Self.prometheus(statistics))
                } else {
                    try Terminal.output(Self.table(statistics))
                }
            }
        }
    }

    /// The counters and values derived from them.
    private struct Report: Encodable {
        let statistics: CacheStatistics

        private enum CodingKeys: CodingKey {
            case hitRatio, duplicateRatio
        }

        func encode(to encoder: any Encoder) throws {
            try statistics.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encodeIfPresent(statistics.hitRatio, forKey: .hitRatio)
            try container.encodeIfPresent(statistics.duplicateRatio, forKey: .duplicateRatio)
        }
    }

    private static func counters(_ statistics: CacheStatistics) -> [(String, Int)] {
        statistics.events.map { ($0.name, $0.count) } + [("evictions", statistics.evictions)]
    }

    static func table(_ statistics: CacheStatistics) -> String {
        func row(_ name: String, _ value: String) -> String {
            name.padding(toLength: 24, withPad: " ", startingAt: 0) + value
        }
        var lines = counters(statistics).map { row($0.0, String($0.1)) }
        let percent = statistics.hitRatio.map { String(format: "%.1f %%", $0 * 100) } ?? "no lookups yet"
        lines.append(row("hit ratio", percent))
        lines.append(row("distinct originals", "\(statistics.distinctOriginals) (estimate)"))
        lines.append(
            row("fetches per original", statistics.duplicateRatio.map { String(format: "%.2f", $0) } ?? "none yet")
        )
        if let refused = statistics.refusedCommands {
            let rules = refused.map { "+" + $0 }.joined(separator: " ")
            lines.append("  (figures are missing: the user of the cache Redis needs \(rules))")
        }
        if statistics.refusedCommands?.contains("info") != true {
            let limit = statistics.memoryLimit == 0 ? "no limit" : Counted.bytes(statistics.memoryLimit)
            lines.append(row("memory", "\(Counted.bytes(statistics.memoryUsed)) of \(limit)"))
        }
        if statistics.nodes.count > 1 {
            for node in statistics.nodes {
                let state = node.error ?? "\(Counted.bytes(node.memoryUsed)), \(Counted.of(node.evictions, "eviction"))"
                lines.append("  \(node.address)  \(state)")
            }
        }
        for (kind, size) in statistics.kinds.sorted(by: { $0.key < $1.key }) {
            lines.append(row("  \(kind)", "\(Counted.of(size.keys, "key")), \(Counted.bytes(size.bytes))"))
        }
        if !statistics.scanIsComplete, statistics.refusedCommands?.contains("scan") != true {
            lines.append("  (incomplete: --scan-seconds ended, or a server did not answer)")
        }
        for (host, count) in statistics.originFetchesByHost.sorted(by: { $0.value > $1.value }).prefix(20) {
            lines.append(row("  \(host.isEmpty ? "(no host)" : host)", Counted.fetches(count)))
        }
        return lines.joined(separator: "\n")
    }

    static func prometheus(_ statistics: CacheStatistics) -> String {
        var lines: [String] = []
        for (name, value) in counters(statistics) {
            lines += ["# TYPE megaton_cache_\(name)_total counter", "megaton_cache_\(name)_total \(value)"]
        }
        // Zero would be taken for a measurement.
        if statistics.refusedCommands?.contains("info") != true {
            lines += ["# TYPE megaton_cache_memory_bytes gauge", "megaton_cache_memory_bytes \(statistics.memoryUsed)"]
        }
        lines += ["# TYPE megaton_cache_node_up gauge"]
        for node in statistics.nodes {
            lines.append("megaton_cache_node_up{node=\"\(node.address)\"} \(node.error == nil ? 1 : 0)")
        }
        lines += ["# TYPE megaton_cache_keys gauge"]
        for (kind, size) in statistics.kinds.sorted(by: { $0.key < $1.key }) {
            lines.append("megaton_cache_keys{kind=\"\(kind)\"} \(size.keys)")
        }
        lines += ["# TYPE megaton_cache_kind_bytes gauge"]
        for (kind, size) in statistics.kinds.sorted(by: { $0.key < $1.key }) {
            lines.append("megaton_cache_kind_bytes{kind=\"\(kind)\"} \(size.bytes)")
        }
        return lines.joined(separator: "\n")
    }
}
