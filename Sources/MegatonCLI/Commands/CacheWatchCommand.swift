import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine

/// `megaton cache watch`
struct CacheWatchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Print the rates of the cache at intervals: hits, misses, fetches, renders and bytes a second.",
        discussion: """
            Examples:
              megaton cache watch
              megaton cache watch --interval 60 --count 10 --json

            They come from the counters, to which workers add every second; no key of the cache is read. Ctrl-C ends it.
            \(RedisOptions.environmentHelp)
            """
    )

    @Option(name: .long, help: ArgumentHelp("Time between two lines.", valueName: "seconds"))
    var interval: Double = 5

    @Option(name: .long, help: "Number of lines, after which the command ends; 0 for no end.")
    var count = 0

    @Flag(name: .long, help: "Print one JSON object for each line.")
    var json = false

    @OptionGroup var redis: RedisOptions

    /// Lines after which the heading is repeated.
    private static let page = 20

    mutating func validate() throws {
        try OptionRange.check("--interval", interval, 0.1...3600)
        try OptionRange.check("--count", count, 0...1_000_000)
    }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.run(redis) { inspector in
                var (last, time) = (try await inspector.cacheCounters(), ContinuousClock.now)
                var lines = 0
                while count == 0 || lines < count {
                    try await Task.sleep(for: .seconds(interval))
                    let (next, now) = (try await inspector.cacheCounters(), ContinuousClock.now)
                    let passed: Double = time.duration(to: now) / Duration.seconds(1)
                    let rates = CacheRates(from: last, to: next, seconds: passed)
                    if !json, lines % Self.page == 0 { try Terminal.output(Self.heading) }
                    guard try Terminal.output(json ? try JSONText.line(rates) : Self.line(rates)) else { return }
                    (last, time) = (next, now)
                    lines += 1
                }
            }
        }
    }

    private static let heading = row(["hits/s", "misses/s", "hit ratio", "fetches/s", "renders/s", "in/s", "out/s"])

    static func line(_ rates: CacheRates) -> String {
        func number(_ value: Double) -> String { String(format: "%.1f", value) }
        return row([
            number(rates.hits), number(rates.misses),
            rates.hitRatio.map { String(format: "%.1f %%", $0 * 100) } ?? "-",
            number(rates.originFetches), number(rates.renders), Counted.bytes(Int(rates.bytesIn)),
            Counted.bytes(Int(rates.bytesOut)),
        ])
    }

    private static func row(_ cells: [String]) -> String {
        cells.map { String(repeating: " ", count: max(0, 10 - $0.count)) + $0 }.joined(separator: " ")
    }
}
