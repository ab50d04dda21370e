import ArgumentParser
import Foundation
import MegatonCommandLine

/// `megaton-bench cluster`
struct ClusterBenchmarkCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster",
        abstract: "What a large fleet costs its queue: workers that only pretend to render, on a private Redis.",
        discussion: """
            The coordinator and the queue are real, and so is what the workers ask of it; their work is a wait. First \
            they have nothing to do, then a backlog is worked off, then jobs come at a steady rate. From the processor \
            time of Redis follows how many such workers one queue can have. Everything is on this machine: where its \
            processors are all busy and Redis takes a part of one, the workers were too slow and not the queue.
            """
    )

    @Option(name: .customLong("simulated-workers"), help: "Workers; a process has 250 of them.")
    var workers = 1000

    @Option(name: .long, help: "Jobs that each worker has in hand at a time.")
    var concurrency = 1

    @Option(name: .customLong("render-ms"), help: "What a job takes on average, ms.")
    var renderMilliseconds = 100.0

    @Option(
        name: .long,
        help: "Hosts that the jobs pretend to fetch from, with a pass of each host's gate; 0 asks for none."
    )
    var hosts = 0

    @Option(name: .long, help: "Jobs of the backlog; what the workers could do in the time, unless given.")
    var jobs: Int?

    @Option(name: .long, help: "Seconds for the backlog at the most, and of the steady part.")
    var seconds = 10

    @Option(name: .long, help: "Jobs a second of the steady part; half of what was measured unless given.")
    var rate: Int?

    @Flag(name: .long, help: "End with one JSON object on standard output.")
    var json = false

    mutating func validate() throws {
        try OptionRange.check("--simulated-workers", workers, 1...5000)
        try OptionRange.check("--concurrency", concurrency, 1...64)
        try OptionRange.check("--render-ms", renderMilliseconds, 0.1...60_000)
        try OptionRange.check("--hosts", hosts, 0...10_000)
        try OptionRange.check("--jobs", jobs, 1...1_000_000)
        try OptionRange.check("--seconds", seconds, 1...600)
        try OptionRange.check("--rate", rate, 1...1_000_000)
    }

    func run() async throws {
        try await reportingFailures {
            let report = try await EmbeddedRedis(size: 4 << 30, isTemporary: true).run { address in
                try await ClusterBenchmark(
                    address: address,
                    workers: workers,
                    concurrency: concurrency,
                    hosts: hosts,
                    renderMilliseconds: renderMilliseconds,
                    jobs: jobs ?? backlog,
                    seconds: seconds,
                    rate: rate
                ).run()
            }
            if json { Terminal.output(try JSONText.pretty(report)) } else { Terminal.output(report.text) }
        }
    }

    /// Jobs that the workers could complete in the time if only their work took any.
    private var backlog: Int {
        let speed = Double(workers * concurrency) / renderMilliseconds * 1000
        return min(1_000_000, max(1, Int(speed * Double(seconds))))
    }
}
