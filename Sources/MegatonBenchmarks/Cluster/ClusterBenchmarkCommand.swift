import ArgumentParser
import Foundation
import MegatonCommandLine

/// `megaton-bench cluster`
struct ClusterBenchmarkCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster",
        abstract:
            "Measure the load of a large fleet on its queue: workers that only simulate rendering, or that are idle.",
        discussion: """
            Coordinator, queue and the requests of the workers are real; the work of a job is a wait. First there are \
            no jobs, then the workers process a backlog, then jobs arrive at a steady rate. The processor time of \
            Redis shows how many such workers one queue can have. Everything runs on this machine: if all of its \
            processors are busy and Redis uses a part of one, then the workers were the limit and not the queue.

            Redis is a private one, or that of --redis, whose queue "bench" may have been divided with megaton queue \
            reshard: jobs are then spread over all shards, the figures are sums, and each Redis (of a Redis Cluster \
            each master) has a line of its own with its processor time and commands.

            With --idle the workers are real ones without jobs, up to 250 in each process, and the commands that they \
            send to Redis are counted.

            Examples:
              megaton-bench cluster --simulated-workers 1000 --idle 60
              megaton queue reshard 4 --queue bench --redis redis://10.0.0.1 --redis redis://10.0.0.2
              megaton-bench cluster --redis redis://10.0.0.1 --redis redis://10.0.0.2
            """
    )

    @Option(name: .customLong("simulated-workers"), help: "Number of workers, up to 250 in each process.")
    var workers = 1000

    @Option(name: .long, help: "Number of concurrent jobs of each worker.")
    var concurrency = 1

    @Option(
        name: .customLong("render-ms"),
        help: "Average duration of a job, ms; below 0.01 there is no wait. By default 100."
    )
    var renderTime: Double?

    @Option(
        name: .long,
        help:
            "Number of hosts from which the jobs simulate a fetch, each with a fetch permit; 0, the default, for none."
    )
    var hosts: Int?

    @Option(name: .long, help: "Number of jobs in the backlog; by default as many as the workers could do in the time.")
    var jobs: Int?

    @Option(name: .long, help: "Time limit of the backlog, and duration of the steady part, seconds. By default 10.")
    var seconds: Int?

    @Option(name: .long, help: "Jobs per second in the steady part; by default half of the measured rate.")
    var rate: Int?

    @Option(
        name: .long,
        help: "Number of sources in each job, up to 256, by default 1; jobs are counted by their sources."
    )
    var pack: Int?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Only run real workers without jobs, and count their commands for this time.",
            valueName: "seconds"
        )
    )
    var idle: Int?

    @OptionGroup var target: BenchmarkRedisOptions

    @Flag(name: .long, help: "Print one JSON object instead of the table.")
    var json = false

    mutating func validate() throws {
        try OptionRange.check("--simulated-workers", workers, 1...5000)
        try OptionRange.check("--concurrency", concurrency, 1...64)
        try OptionRange.check("--render-ms", renderTime, 0.001...60_000)
        try OptionRange.check("--hosts", hosts, 0...10_000)
        try OptionRange.check("--jobs", jobs, 1...1_000_000)
        try OptionRange.check("--seconds", seconds, 1...600)
        try OptionRange.check("--rate", rate, 1...1_000_000)
        try OptionRange.check("--pack", pack, 1...256)
        try OptionRange.check("--idle", idle, 1...3600)
        let others: [(String, Bool)] = [
            ("--render-ms", renderTime != nil), ("--hosts", hosts != nil), ("--jobs", jobs != nil),
            ("--seconds", seconds != nil), ("--rate", rate != nil), ("--pack", pack != nil),
        ]
        if idle != nil, let other = others.first(where: \.1)?.0 {
            throw ValidationError("\(other) is about jobs, and with --idle there are none: leave one of them out.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            let fleet = BenchmarkFleet(workers: workers, concurrency: concurrency)
            if let idle {
                let report = try await target.run { queue in
                    try await IdleBenchmark(target: queue, fleet: fleet, seconds: idle).run()
                }
                if json { try Terminal.output(JSONText.pretty(report)) } else { try Terminal.output(report.text) }
                return
            }
            let report = try await target.run { queue in
                try await ClusterBenchmark(
                    target: queue,
                    fleet: fleet,
                    hosts: hosts ?? 0,
                    renderMilliseconds: renderMilliseconds,
                    jobs: jobs ?? backlog,
                    seconds: seconds ?? Self.defaultSeconds,
                    rate: rate,
                    pack: pack ?? 1
                ).run()
            }
            if json { try Terminal.output(JSONText.pretty(report)) } else { try Terminal.output(report.text) }
        }
    }

    private static let defaultSeconds = 10

    private var renderMilliseconds: Double { renderTime ?? 100 }

    /// Jobs that the workers could complete in the time if only their work took any.
    private var backlog: Int {
        let speed = Double(workers * concurrency) / renderMilliseconds * 1000
        return min(1_000_000, max(1, Int(speed * Double(seconds ?? Self.defaultSeconds))))
    }
}
