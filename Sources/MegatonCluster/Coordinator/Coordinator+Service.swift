internal import MegatonRedis
public import ServiceLifecycle

extension Coordinator: Service {
    /// Connects, unless ``start(waitingForRedis:)`` has done that, and works until the service group shuts down or the
    /// task is canceled; then it releases the leader's lease. Redis may be unreachable for a minute at the start.
    ///
    /// - Throws: the error of ``start(waitingForRedis:)``.
    public func run() async throws {
        guard try await starting.run({ try await self.start(waitingForRedis: ServiceStart.redisLimit) }) else { return }
        // Unstructured, so that a graceful shutdown can cancel it too. It is awaited here.
        let work = Task { await runUntilCancelled() }
        await withTaskCancellationOrGracefulShutdownHandler {
            await work.value
        } onCancelOrGracefulShutdown: {
            work.cancel()
        }
    }
}
