import ArgumentParser
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonCore
import MegatonServer

/// Start of a process that runs until SIGTERM: its time limit for Redis, and the address of its health checks and
/// metrics.
struct StartOptions: ParsableArguments {
    @Option(
        name: .customLong("wait-for-redis"),
        help: ArgumentHelp(
            "How long to wait at the start for a Redis that is unreachable or still loading; 0 fails at once.",
            valueName: "seconds"
        )
    )
    var waitForRedis: Double = 60

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Serve HTTP at this address, such as 127.0.0.1:8090: /live while the process runs, /ready while Redis "
                + "answers, /metrics for Prometheus.",
            valueName: "address:port"
        )
    )
    var health: String?

    mutating func validate() throws {
        try OptionRange.check("--wait-for-redis", waitForRedis, 0...86400, " seconds")
        if let health, ListenAddress(health) == nil {
            throw ValidationError("--health must look like 127.0.0.1:8090, not \"\(health)\".")
        }
    }

    /// A runner with these options. If `health` is set, everything that is made afterwards counts for its metrics.
    ///
    /// - Parameters:
    ///   - role: `worker` or `coordinator`, for metrics.
    ///   - metrics: those that a process of this role counts.
    ///   - shutdown: ends the wait for Redis, and shuts the service down.
    func runner(
        as role: String,
        counting metrics: [MetricDescription],
        until shutdown: ShutdownSignal,
        logger: Logger
    ) -> ServiceRunner {
        ServiceRunner(
            listener: health.flatMap(ListenAddress.init).map {
                ProcessListener($0, role: role, expected: metrics, logger: logger)
            },
            redisLimit: .seconds(waitForRedis),
            shutdown: shutdown,
            manager: ServiceManager(logger: logger),
            logger: logger
        )
    }
}
