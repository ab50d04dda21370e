import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import MegatonServer
import Synchronization

/// `megaton worker`
struct WorkerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "worker",
        abstract: "Claim and run jobs until SIGTERM; a second SIGTERM releases running jobs at once.",
        discussion: """
            Examples:
              megaton worker --redis redis://127.0.0.1:6479 --cache-redis redis://127.0.0.1:6480 \\
                  --allow-root /srv/thumbs
              megaton worker --allow-source '*.example.com' --memory 2048
              megaton worker --max-pixels 120 --host-rate 5 --health 127.0.0.1:8090

            It claims jobs from the queue of the control Redis, as many at a time as --concurrency says, and ends them \
            before it ends itself. Directories, buckets and private addresses are forbidden unless an option allows \
            them.

            \(RedisOptions.environmentHelp)
            """
    )

    @OptionGroup(title: "Redis") var redis: RedisOptions
    @OptionGroup(title: "Files, Cache and Hosts") var worker: WorkerOptions
    @OptionGroup(title: "Access to Sources") var access: SourceAccessOptions
    @OptionGroup(title: "Limits of Sources") var limits: SourceLimitOptions
    @OptionGroup(title: "Log") var log: LogOptions
    @OptionGroup(title: "Start and Health") var start: StartOptions

    @Option(name: .customLong("render-threads"), help: "Number of render threads; the number of processors by default.")
    var renderThreads: Int?

    @Option(name: .long, help: "Lease of a claimed job without a heartbeat, seconds.")
    var lease: Double = 15

    @Option(
        name: .customLong("renew-interval"),
        help: "Seconds between two heartbeats; at most a third of the lease, which is the default."
    )
    var renewInterval: Double?

    @Option(name: .customLong("sweep-interval"), help: "Seconds between two checks for expired leases.")
    var sweepInterval: Double = 1

    @Option(
        name: .customLong("flight-lease"),
        help: "Lease of a single flight, seconds: how long waiters wait for a dead worker's fetch or render."
    )
    var flightLease: Double = 10

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Append a JSON line to this file for each claim, completion, fetch and flight, to prove that no job was "
                + "lost or done twice.",
            valueName: "file"
        ),
        completion: .file()
    )
    var history: String?

    @Option(name: .customLong("drain-timeout"), help: "Seconds that running jobs may continue after SIGTERM.")
    var drainTimeout: Double = 25

    @Flag(name: .customLong("only-suspects"), help: .hidden)
    var onlySuspects = false

    @Flag(name: .customLong("part-of-run"), help: .hidden)
    var isPartOfRun = false

    @Option(
        name: .customLong("fail-on"),
        help: ArgumentHelp(
            "Damage of a source that is an error, for jobs without a setting of their own.",
            valueName: "none|truncated|error|warning"
        ),
        completion: .list(Rendition.FailOn.allCases.map(\.rawValue))
    )
    var failOn = Rendition.FailOn.truncated.rawValue

    mutating func validate() throws {
        worker.take(access, limits)
        if Rendition.FailOn(rawValue: failOn) == nil {
            throw ValidationError("--fail-on must be none, truncated, error or warning, not \"\(failOn)\".")
        }
        try OptionRange.check("--render-threads", renderThreads, 1...1024)
        try OptionRange.check("--lease", lease, 1...3600, " seconds")
        if let renewInterval, !(0.1...lease / 3 + 0.001).contains(renewInterval) {
            throw ValidationError(
                "--renew-interval must be 0.1 seconds to a third of --lease, so that one heartbeat may fail: with a "
                    + "lease of \(lease.formatted()) s at most \((lease / 3).formatted()) s, not "
                    + "\(renewInterval.formatted()) s."
            )
        }
        try OptionRange.check("--sweep-interval", sweepInterval, 0.05...60, " seconds")
        try OptionRange.check("--flight-lease", flightLease, 0.5...600, " seconds")
        if history?.isEmpty == true { throw ValidationError("--history is empty; it must name a file.") }
        try OptionRange.check("--drain-timeout", drainTimeout, 0...3600, " seconds")
    }

    /// Makes room for the files and connections of all jobs. Without it, jobs fail for lack of descriptors.
    private static func raiseFileLimit(_ jobs: Int, _ logger: Logger) {
        // A job has a connection and a file, and as many connections may be idle.
        let wanted = 2 * max(256, jobs)
        let connections = OpenFiles.connections(atMost: wanted)
        if connections == wanted { return }
        logger.warning(
            "the limit of open files is low for the concurrency; raise it (ulimit -Hn, or LimitNOFILE of the unit)",
            metadata: ["wanted": "\(wanted)", "connections": "\(connections)"]
        )
    }

    /// Warns of directories for outputs in which this user may not write: each of their jobs would fail here.
    private static func check(outputRoots roots: [String], _ logger: Logger) {
        for root in roots where !FileManager.default.isWritableFile(atPath: root) {
            logger.warning(
                "a directory of --allow-root is missing or not writable: outputs there may fail on this worker",
                metadata: ["path": "\(root)"]
            )
        }
    }

    func run() async throws {
        BatchScheduling.begin()
        try await reportingFailures {
            let shutdown = ShutdownSignal()
            try await ProcessSignals.forwarded(to: shutdown) {
                let controls = try redis.controls()
                var configuration = Worker.Configuration(control: controls[0])
                configuration.furtherControls = Array(controls.dropFirst())
                configuration.caches = try redis.caches()
                configuration.keys = redis.keys
                if let concurrency = worker.concurrency { configuration.concurrency = concurrency }
                configuration.renderConcurrency = renderThreads
                configuration.lease = .seconds(lease)
                configuration.renewInterval = .seconds(renewInterval ?? lease / 3)
                configuration.sweepInterval = .seconds(sweepInterval)
                configuration.flightLease = .seconds(flightLease)
                configuration.drainTimeout = .seconds(drainTimeout)
                configuration.waitsForDisk = !isPartOfRun
                configuration.failOn = Rendition.FailOn(rawValue: failOn) ?? .truncated
                configuration.history = try history.map { try HistoryFile($0) }
                if onlySuspects {
                    configuration.takesOnlySuspects = true
                    configuration.takeoverDelay = nil
                } else {
                    configuration.isolate = Self.isolate()
                }
                let logger = log.logger("megaton.worker")
                Self.raiseFileLimit(configuration.maximumJobs, logger)
                var start = start
                // The worker that started it answers health checks on that port.
                if onlySuspects { start.health = nil }
                let runner = start.runner(
                    as: "worker",
                    counting: MetricCatalog.ofWorkers,
                    until: shutdown,
                    logger: logger
                )
                try worker.apply(to: &configuration, logger: logger)
                configuration.watermarks = try await worker.loadedWatermarks()
                for (name, reason) in configuration.watermarks?.unusable ?? [:] {
                    let text = "a file in --watermarks is left out: \(reason.message)"
                    logger.notice("\(text)", metadata: ["file": "\(name)"])
                }
                if configuration.roots.isEmpty && configuration.readRoots.isEmpty {
                    logger.notice("no directory is allowed: file sources and outputs fail without --allow-root")
                }
                if !onlySuspects { Self.check(outputRoots: configuration.roots, logger) }
                let worker = try Worker(
                    configuration,
                    logger: logger,
                    onHungRender: { _exit(70) }
                )
                try await runner.run(
                    worker,
                    isReady: { worker.isReady },
                    metrics: {
                        worker.updateGauges()
                        return []
                    },
                    isHung: { worker.isHung },
                    connect: { try await worker.start(waitingForRedis: $0) }
                )
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
