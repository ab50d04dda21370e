internal import MegatonRedis
public import ServiceLifecycle

extension Worker: Service {
    /// Connects, unless `start(waitingForRedis:)` has done that, and works until the service group shuts down.
    ///
    /// A graceful shutdown drains: running jobs may end within ``Configuration/drainTimeout``. Cancellation returns
    /// them to the queue at once. Redis may be unreachable for a minute at the start.
    ///
    /// - Throws: the error of `start(waitingForRedis:)`.
    public func run() async throws {
        guard try await starting.run({ try await self.start(waitingForRedis: ServiceStart.redisLimit) }) else { return }
        let signal = ShutdownSignal()
        // Unstructured, so that the cancellation ends it in order, by the signal. It is awaited here.
        let work = Task { await run(until: signal) }
        await withTaskCancellationHandler {
            await withGracefulShutdownHandler {
                await work.value
            } onGracefulShutdown: {
                signal.raise(to: .drain)
            }
        } onCancel: {
            signal.raise(to: .abort)
        }
    }
}
