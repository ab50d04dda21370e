internal import MegatonRedis
public import ServiceLifecycle
import Synchronization

extension Worker: Service {
    /// Connects, unless `start(waitingForRedis:)` has done that, and works until the service group shuts down.
    ///
    /// A graceful shutdown drains: running jobs may end within ``Configuration/drainTimeout``. Cancellation returns
    /// them to the queue at once. Redis may be unreachable for a minute at the start.
    ///
    /// - Throws: the error of `start(waitingForRedis:)`, or the reason for which the worker ended by itself: the queue
    ///   has changed to a version with which it cannot work, or to another number of shards.
    public func run() async throws {
        do {
            guard try await starting.run({ try await self.start(waitingForRedis: ServiceStart.redisLimit) }) else {
                return await close()
            }
        } catch {
            await close()
            throw error
        }
        // The chain of a shutdown: the service group raises the signal below. At `.drain`, `ClaimLoop.run` stops
        // claiming and calls `ClaimLoop.drain`, which waits until no job runs, `drainTimeout` is over, or the level is
        // `.abort`. It stops the remaining jobs as `.shutdown`, and `JobHandler.settle` returns them to the queue with
        // `JobQueue.release`.
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
        if let error = refusal.withLock({ $0 }) { throw error }
    }
}
