import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine

/// `megaton top`
struct TopCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "top",
        abstract: "Watch rates, the queue, workers, hosts and failures on the terminal; q ends it.",
        discussion: """
            Examples:
              megaton top --redis redis://127.0.0.1:6479
              megaton top --once --json

            It shows what the control Redis knows, and reads no key of the cache. If standard output is no terminal, \
            it prints one snapshot, as with --once.

            \(RedisOptions.environmentHelp)
            """
    )

    @Option(
        name: .long,
        help: ArgumentHelp("Time between two readings, and the one for which rates count.", valueName: "seconds")
    )
    var interval: Double = 2

    @Flag(name: .long, help: "Print one snapshot after --interval, and end.")
    var once = false

    @Flag(name: .long, help: "Print the snapshot as one JSON object; implies --once.")
    var json = false

    @OptionGroup var redis: RedisOptions

    mutating func validate() throws {
        try OptionRange.check("--interval", interval, 0.1...3600)
    }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.run(redis) { inspector in
                let first = try await TopReading.read(inspector)
                if !once && !json && Screen.isAvailable {
                    let watch = TopWatch(inspector: inspector, queue: redis.queue, interval: interval)
                    return try await watch.run(after: first)
                }
                try await Task.sleep(for: .seconds(interval))
                let second = try await TopReading.read(inspector, after: first)
                let snapshot = TopSnapshot(from: first, to: second)
                let view = TopView(queue: redis.queue, snapshot: snapshot)
                try Terminal.output(json ? try JSONText.pretty(snapshot) : view.text)
            }
        }
    }
}
