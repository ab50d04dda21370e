import ArgumentParser
import Logging
import MegatonCluster
import MegatonCommandLine
import ServiceLifecycle

/// Start of a process that runs until SIGTERM: its time limit for Redis, and the address of its health checks.
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
            "Serve HTTP health checks at this address, such as 127.0.0.1:8090: /live while the process runs, /ready "
                + "while Redis answers.",
            valueName: "address:port"
        )
    )
    var health: String?

    mutating func validate() throws {
        try OptionRange.check("--wait-for-redis", waitForRedis, 0...86400, " seconds")
        if let health, HealthServer.address(health) == nil {
            throw ValidationError("--health must look like 127.0.0.1:8090, not \"\(health)\".")
        }
    }

    /// Serves health checks from the beginning, connects, and then runs the service until it ends by itself or by the
    /// shutdown.
    ///
    /// - Parameters:
    ///   - shutdown: ends the wait for Redis; the service does not begin then. Later it shuts the service down
    ///     gracefully, or cancels it.
    ///   - isReady: called for each request of `/ready`, on an event loop: must not block.
    ///   - connect: receives the time limit for Redis.
    /// - Throws: `CLIError` if the process cannot listen on the address, and the errors of `connect` and the service.
    func run(
        _ service: any Service,
        until shutdown: ShutdownSignal,
        logger: Logger,
        isReady: @escaping @Sendable () -> Bool,
        connect: @escaping @Sendable (Duration) async throws -> Void
    ) async throws {
        var server: HealthServer?
        if let health { server = try await HealthServer.start(health, isReady: isReady) }
        let limit = Duration.seconds(waitForRedis)
        let isConnected = try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                do {
                    try await connect(limit)
                    return true
                } catch {
                    // Only the shutdown cancels this task.
                    if Task.isCancelled { return false }
                    throw error
                }
            }
            group.addTask {
                await shutdown.wait(for: .drain)
                return false
            }
            defer { group.cancelAll() }
            return try await group.next() ?? false
        }
        if isConnected { try await Self.run(service, until: shutdown, logger: logger) }
        try await server?.stop()
    }

    /// Runs the service in a group of its own. The first signal shuts it down gracefully, and the second cancels it.
    private static func run(_ service: any Service, until shutdown: ShutdownSignal, logger: Logger) async throws {
        // A worker for suspects ends by itself.
        let services = [
            ServiceGroupConfiguration.ServiceConfiguration(
                service: service,
                successTerminationBehavior: .gracefullyShutdownGroup
            )
        ]
        let group = ServiceGroup(configuration: ServiceGroupConfiguration(services: services, logger: logger))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            tasks.addTask {
                await shutdown.wait(for: .drain)
                if !Task.isCancelled { await group.triggerGracefulShutdown() }
                await shutdown.wait(for: .abort)
            }
            // The service has ended, or is cancelled at the second signal and ends soon.
            try await tasks.next()
            tasks.cancelAll()
            try await tasks.waitForAll()
        }
    }
}
