import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import Synchronization

/// `megaton worker`
struct WorkerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "worker",
        abstract: "Claim jobs and do them until SIGTERM; a second SIGTERM gives back at once what runs.",
        discussion: RedisOptions.environmentHelp
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var worker: WorkerOptions
    @OptionGroup var log: LogOptions
    @OptionGroup var start: StartOptions

    @Option(name: .long, help: "Jobs in hand at a time; most of them wait for an origin.")
    var concurrency = 16

    @Option(name: .customLong("render-threads"), help: "Threads that render; the number of processors by default.")
    var renderThreads: Int?

    @Option(name: .long, help: "Seconds for which a claimed job is ours without a sign of life.")
    var lease: Double = 15

    @Option(
        name: .customLong("renew-interval"),
        help: "Seconds between two renewals; at most a third of the lease, which is the default."
    )
    var renewInterval: Double?

    @Option(name: .customLong("sweep-interval"), help: "Seconds between two looks for leases that ran out.")
    var sweepInterval: Double = 1

    @Option(
        name: .customLong("flight-lease"),
        help: "Seconds for which a dead worker's fetch or render holds up others."
    )
    var flightLease: Double = 10

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Append a JSON line for each claim, end, fetch and flight: what a checker needs to prove that nothing was "
                + "lost or done twice.",
            valueName: "file"
        )
    )
    var history: String?

    @Option(name: .customLong("drain-timeout"), help: "Seconds that running jobs may take after SIGTERM.")
    var drainTimeout: Double = 25

    @Flag(name: .customLong("only-suspects"), help: .hidden)
    var onlySuspects = false

    @Option(
        name: .customLong("fail-on"),
        help: ArgumentHelp(
            "Which damage of a source is an error, for jobs that do not say so.",
            valueName: "none|truncated|error|warning"
        )
    )
    var failOn = Rendition.FailOn.truncated.rawValue

    mutating func validate() throws {
        if Rendition.FailOn(rawValue: failOn) == nil {
            throw ValidationError("--fail-on is none, truncated, error or warning, not \"\(failOn)\".")
        }
        if !(1...1024).contains(concurrency) { throw ValidationError("--concurrency is 1 to 1024.") }
        if let renderThreads, !(1...1024).contains(renderThreads) {
            throw ValidationError("--render-threads is 1 to 1024.")
        }
        if !(1...3600).contains(lease) { throw ValidationError("--lease is 1 to 3600 seconds.") }
        if let renewInterval, !(0.1...lease / 3 + 0.001).contains(renewInterval) {
            throw ValidationError(
                "--renew-interval is 0.1 seconds to a third of --lease, so that one renewal may fail: with a lease of "
                    + "\(lease.formatted()) s at most \((lease / 3).formatted()) s, not \(renewInterval.formatted()) s."
            )
        }
        if !(0.05...60).contains(sweepInterval) { throw ValidationError("--sweep-interval is 0.05 to 60 seconds.") }
        if !(0.5...600).contains(flightLease) { throw ValidationError("--flight-lease is 0.5 to 600 seconds.") }
        if history?.isEmpty == true { throw ValidationError("--history is empty; it names a file.") }
        if !(0...3600).contains(drainTimeout) { throw ValidationError("--drain-timeout is 0 to 3600 seconds.") }
    }

    func run() async throws {
        try await reportingFailures {
            let shutdown = ShutdownSignal()
            try await ProcessSignals.forwarded(to: shutdown) {
                var configuration = Worker.Configuration(control: try redis.control())
                configuration.cache = try redis.cache()
                configuration.keys = redis.keys
                configuration.concurrency = concurrency
                configuration.renderConcurrency = renderThreads
                configuration.lease = .seconds(lease)
                configuration.renewInterval = .seconds(renewInterval ?? lease / 3)
                configuration.sweepInterval = .seconds(sweepInterval)
                configuration.flightLease = .seconds(flightLease)
                configuration.drainTimeout = .seconds(drainTimeout)
                configuration.failOn = Rendition.FailOn(rawValue: failOn) ?? .truncated
                configuration.history = try history.map { try HistoryFile($0) }
                if onlySuspects {
                    configuration.takesOnlySuspects = true
                    configuration.takeoverDelay = nil
                } else {
                    configuration.isolate = Self.isolate()
                }
                let logger = log.logger("megaton.worker")
                try worker.apply(to: &configuration, logger: logger)
                let worker = try Worker(
                    configuration,
                    logger: logger,
                    onHungRender: { _exit(70) }
                )
                var start = start
                // The worker that started it answers health checks on that port.
                if onlySuspects { start.health = nil }
                try await start.run(worker, until: shutdown, logger: logger, isReady: { worker.isReady }) { limit in
                    try await worker.start(waitingForRedis: limit)
                }
            }
        }
    }

    /// Starts the same worker again as a child process for suspects only. It releases its jobs when this process ends.
    private static func isolate() -> @Sendable () async throws -> Worker.IsolatedProcess {
        let arguments = Array(CommandLine.arguments.dropFirst())
        return {
            let program = try CommandLineProgram.path()
            let pid = Mutex<Int32>(0)
            let child = ChildProcess(
                command: [program] + arguments + ["--only-suspects", "--drain-timeout", "0", "--wait-for-redis", "0"],
                gracePeriod: .seconds(5)
            )
            let termination = try await child.run { id in pid.withLock { $0 = id } }
            return Worker.IsolatedProcess(pid: pid.withLock { $0 }, isSuccess: termination == .exited(0))
        }
    }
}
