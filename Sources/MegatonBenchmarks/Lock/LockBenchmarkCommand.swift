import ArgumentParser
import Foundation
import MegatonCommandLine
import MegatonRedis

/// `megaton-bench lock`
struct LockBenchmarkCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock",
        abstract: "How soon those who wait for somebody else's work are woken by its end.",
        discussion: """
            In each round one process leads a flight, the waiters in the other processes wait for it, and it ends with \
            an entry. Counted is from just before Redis is told until a waiter goes on, and until it has the entry. \
            What a given Redis is left with goes within a minute.
            """
    )

    @Option(name: .long, help: "Those who wait.")
    var waiters = 100

    @Option(name: .long, help: "Processes that they are in.")
    var processes = 4

    @Option(name: .long, help: "Rounds that are counted.")
    var rounds = 200

    @Option(
        name: .long,
        help: ArgumentHelp("Cache Redis to be asked; a private one unless given.", valueName: "url")
    )
    var redis: String?

    @Flag(name: .long, help: "End with one JSON object on standard output.")
    var json = false

    mutating func validate() throws {
        try OptionRange.check("--waiters", waiters, 1...10_000)
        try OptionRange.check("--processes", processes, 1...64)
        if processes > waiters { throw ValidationError("--processes is not more than --waiters.") }
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
            if json { Terminal.output(try JSONText.pretty(report)) } else { Terminal.output(report.text) }
        }
    }

    private func benchmark(_ address: RedisConfiguration, url: String) -> LockBenchmark {
        LockBenchmark(address: address, url: url, waiters: waiters, processes: processes, rounds: rounds)
    }
}
