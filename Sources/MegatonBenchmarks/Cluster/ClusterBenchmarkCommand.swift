import ArgumentParser
import Foundation
import MegatonCommandLine

/// `megaton-bench cluster`
struct ClusterBenchmarkCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster",
        abstract:
            "Measure the load of a large fleet on its queue: workers that only simulate rendering, on a private Redis.",
        discussion: """
            Coordinator, queue and the requests of the workers are real; the work of a job is a wait. First there are \
            no jobs, then the workers process a backlog, then jobs arrive at a steady rate. The processor time of \
            Redis shows how many such workers one queue can have. Everything runs on this machine: if all of its \
            processors are busy and Redis uses a part of one, then the workers were the limit and not the queue.
            """
    )

    @Option(name: .customLong("simulated-workers"), help: "Number of workers, up to 250 in each process.")
    var workers = 1000

    @Option(name: .long, help: "Number of concurrent jobs of each worker.")
    var concurrency = 1

    @Option(name: .customLong("render-ms"), help: "Average duration of a job, ms; below 0.01 there is no wait.")
    var renderMilliseconds = 100.0

    @Option(
        name: .long,
        help: "Number of hosts from which the jobs simulate a fetch, each with a fetch permit; 0 for none."
    )
    var hosts = 0

    @Option(name: .long, help: "Number of jobs in the backlog; by default as many as the workers could do in the time.")
    var jobs: Int?

    @Option(name: .long, help: "Time limit of the backlog, and duration of the steady part, seconds.")
    var seconds = 10

    @Option(name: .long, help: "Jobs per second in the steady part; by default half of the measured rate.")
    var rate: Int?

    @Option(name: .long, help: "Number of sources in each job, up to 256; jobs are counted by their sources.")
    var pack = 1

    @Flag(name: .long, help: "Print one JSON object instead of the table.")
    var json = false

    mutating func validate() throws {
        try OptionRange.check("--simulated-workers", workers, 1...5000)
        try OptionRange.check("--concurrency", concurrency, 1...64)
        try OptionRange.check("--render-ms", renderMilliseconds, 0.001...60_000)
        try OptionRange.check("--hosts", hosts, 0...10_000)
        try OptionRange.check("--jobs", jobs, 1...1_000_000)
        try OptionRange.check("--seconds", seconds, 1...600)
        try OptionRange.check("--rate", rate, 1...1_000_000)
        try OptionRange.check("--pack", pack, 1...256)
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
                    rate: rate,
                    pack: pack
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
