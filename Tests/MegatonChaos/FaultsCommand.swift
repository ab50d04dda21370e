import ArgumentParser
import Foundation
import MegatonTestSupport

/// `scripts/chaos [--seed N] [--minutes M]`
struct FaultsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "faults",
        abstract: "Faults from a seed while batches run, then a check that nothing was lost or done twice.",
        discussion: """
            The workers differ in their places. Jobs are fast, slow, delayed, in packs, with idempotency keys, and \
            twice; their hosts are fast, slow, limited, failing and dead. Of five seeds in a row, two divide the \
            queue into shards, and once more in the run. The pace is measured before the faults, every five minutes, \
            and at the end: let the machine have nothing else to do, or give --no-pace.
            """
    )

    @Option(name: .long, help: "What decides which faults come, and in which order; at random unless given.")
    var seed: UInt64?

    @Option(name: .long, help: "How long faults come.")
    var minutes: Double = 5

    @Option(name: .long, help: "The program megaton.")
    var program: String

    @Flag(name: .customLong("no-pace"), help: "Judge no rates, for a machine that is busy.")
    var noPace = false

    @Flag(name: .long, help: "Keep the histories, ledgers and outputs.")
    var keep = false

    mutating func validate() throws {
        if !(0.1...600).contains(minutes) { throw ValidationError("--minutes is 0.1 to 600.") }
    }

    func run() async throws {
        let seed = seed ?? UInt64.random(in: 0...UInt64(UInt32.max))
        let directory = try TestDirectory()
        print("seed \(seed)")
        let run = ChaosRun(
            .init(
                seed: seed,
                duration: .seconds(minutes * 60),
                program: program,
                directory: directory.path,
                judgesPace: !noPace
            )
        )
        let report = try await run.run()
        for line in report.lines { print(line) }
        for violation in report.violations { print("VIOLATION \(violation)") }
        print(report.violations.isEmpty ? "no violation" : "\(report.violations.count) violations, seed \(seed)")
        if keep || !report.violations.isEmpty {
            directory.keep()
            print("kept: \(directory.path)")
        }
        if !report.violations.isEmpty { throw ExitCode(1) }
    }
}
