import ArgumentParser
import Foundation
import MegatonCommandLine
import MegatonRedis

/// `megaton-bench lock`
struct LockBenchmarkCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock",
        abstract: "Measure how soon the waiters of a single flight continue when it ends.",
        discussion: """
            In each round one process leads a flight, the waiters in the other processes wait for it, and it ends with \
            an entry. The time counts from just before the end is sent to Redis until a waiter continues, and until it \
            has the entry. Keys that stay in a given Redis expire within a minute.
            """
    )

    @Option(name: .long, help: "Number of waiters.")
    var waiters = 100

    @Option(name: .long, help: "Number of processes with the waiters.")
    var processes = 4

    @Option(name: .long, help: "Number of measured rounds.")
    var rounds = 200

    @Option(
        name: .long,
        help: ArgumentHelp("Cache Redis to use; by default a private one.", valueName: "url")
    )
    var redis: String?

    @Flag(name: .long, help: "Print one JSON object instead of the table.")
    var json = false

    mutating func validate() throws {
        try OptionRange.check("--waiters", waiters, 1...10_000)
        try OptionRange.check("--processes", processes, 1...64)
        if processes > waiters { throw ValidationError("--processes must not be more than --waiters.") }
        try OptionRange.check("--rounds", rounds, 1...10_000)
        if let redis {
            do {
                _ = try RedisConfiguration(url: redis)
            } catch {
                throw ValidationError(error.message)
            }
        }
    }

    func run() async throws {
        try await reportingFailures {
            let report: LockReport
            if let redis {
                report = try await benchmark(RedisConfiguration(url: redis), url: redis).run()
            } else {
                report = try await EmbeddedRedis(size: 1 << 30, isTemporary: true).run { address in
                    try await benchmark(address, url: address.description).run()
                }
            }
            if json { try Terminal.output(JSONText.pretty(report)) } else { try Terminal.output(report.text) }
        }
    }

    private func benchmark(_ address: RedisConfiguration, url: String) -> LockBenchmark {
        LockBenchmark(address: address, url: url, waiters: waiters, processes: processes, rounds: rounds)
    }
}
