public import Logging
internal import MegatonRedis
public import ServiceLifecycle
import Synchronization

extension Coordinator: Service {
    /// Creates a coordinator.
    ///
    /// - Parameters:
    ///   - redis: URL of the control Redis; see ``ClusterClient/init(redis:queue:idleTimeout:logger:)``.
    ///   - queue: the queue's name.
    ///   - name: unique name; `host:pid:random` if nil.
    /// - Throws: ``ClusterError`` if the configuration, the URL or the name of the queue is invalid.
    public convenience init(
        _ configuration: Configuration = Configuration(),
        redis: String,
        queue: String = "default",
        name: String? = nil,
        logger: Logger
    ) throws {
        try ClusterError.check(configuration.validationError)
        var configuration = configuration
        configuration.keys = try ClusterError.keys(queue)
        let servers = try ClusterError.servers(redis)
        configuration.furtherControls = Array(servers.dropFirst())
        self.init(configuration, redis: servers[0], name: name, logger: logger)
    }

    /// Connects, unless `start(waitingForRedis:)` has done that, and works until the service group shuts down or the
    /// task is cancelled; then it releases the leader's lease. Redis may be unreachable for a minute at the start.
    ///
    /// - Throws: the error of `start(waitingForRedis:)`, or the reason for which the coordinator ended by itself: the
    ///   queue has changed to a version with which it cannot work, or to another number of shards.
    public func run() async throws {
        defer { close() }
        guard try await starting.run({ try await self.start(waitingForRedis: ServiceStart.redisLimit) }) else { return }
        // Unstructured, so that a graceful shutdown can cancel it too. It is awaited here.
        let work = Task { await runUntilCancelled() }
        await withTaskCancellationOrGracefulShutdownHandler {
            await work.value
        } onCancelOrGracefulShutdown: {
            work.cancel()
        }
        if let error = refusal.withLock({ $0 }) { throw error }
    }
}
