import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonCore
import MegatonServer
import ServiceLifecycle

/// Runs the service of a process until it ends by itself or by a signal.
struct ServiceRunner {
    /// Serves health checks and metrics; nil for none.
    let listener: ProcessListener?
    /// How long to wait at the start for a Redis that is unreachable.
    let redisLimit: Duration
    /// Ends the wait for Redis; the service does not begin then. Later it shuts the service down gracefully, or cancels
    /// it.
    let shutdown: ShutdownSignal
    /// Notified of the start and the end of the process; nil if none has started it.
    let manager: ServiceManager?
    let logger: Logger

    /// Serves health checks and metrics from the beginning, connects, and then runs the service until it ends by itself
    /// or by the shutdown.
    ///
    /// - Parameters:
    ///   - isReady: called for each request of `/ready`: must not block.
    ///   - metrics: called for each request of `/metrics`; see `ProcessListener`.
    ///   - hasStarted: returns when the process responds, or its task is cancelled. The service manager does not wait
    ///     for Redis: it would end a process that does.
    ///   - isHung: whether the service makes no progress; see `ServiceManager`.
    ///   - connect: receives the time limit for Redis.
    /// - Throws: `CLIError` if the process cannot listen on the address, and the errors of `connect` and the service.
    func run(
        _ service: any Service,
        isReady: @escaping @Sendable () -> Bool,
        metrics: @escaping @Sendable () async -> [MetricFamily],
        hasStarted: @escaping @Sendable () async -> Void = {},
        isHung: @escaping @Sendable () -> Bool = { false },
        connect: @escaping @Sendable (Duration) async throws -> Void
    ) async throws {
        let work: @Sendable () async throws -> Void = {
            try await notifying(hasStarted, isHung) { try await run(service, after: connect) }
        }
        guard let listener else { return try await work() }
        try await listener.serve(isReady: isReady, metrics: metrics, while: work)
    }

    /// Runs the body, and notifies the service manager meanwhile.
    private func notifying(
        _ hasStarted: @escaping @Sendable () async -> Void,
        _ isHung: @escaping @Sendable () -> Bool,
        _ body: @Sendable () async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            if let manager {
                group.addTask { await manager.follow(until: shutdown, hasStarted: hasStarted, isHung: isHung) }
            }
            defer { group.cancelAll() }
            try await body()
        }
    }

    private func run(
        _ service: any Service,
        after connect: @escaping @Sendable (Duration) async throws -> Void
    ) async throws {
        let isConnected = try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                do {
                    try await connect(redisLimit)
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
        if isConnected { try await run(service) }
    }

    /// Runs the service in a group of its own. The first signal, which raises the level of `shutdown` to `.drain`,
    /// shuts it down gracefully, and the second cancels it. `ProcessSignals` raises the level at SIGTERM.
    private func run(_ service: any Service) async throws {
        // A worker for suspects ends by itself.
        let services = [
            ServiceGroupConfiguration.ServiceConfiguration(
                service: service,
                successTerminationBehavior: .gracefullyShutdownGroup
            )
        ]
        let configuration = ServiceGroupConfiguration(services: services, logger: logger.forFramework)
        let group = ServiceGroup(configuration: configuration)
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
