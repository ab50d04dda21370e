internal import MegatonRedis
internal import ServiceLifecycle
import Synchronization

/// The first step of a service: it connects, unless its owner has done that before.
final class ServiceStart: Sendable {
    private let isDone = Mutex(false)

    /// How long a service that runs in a `ServiceGroup` waits for its Redis at the start.
    static let redisLimit: Duration = .seconds(60)

    /// Notes that the service is connected.
    func finish() { isDone.withLock { $0 = true } }

    /// Connects, if the service is not connected yet.
    ///
    /// - Returns: false if the service was shut down meanwhile.
    /// - Throws: the error of `connect`.
    func run(_ connect: @escaping @Sendable () async throws -> Void) async throws -> Bool {
        if isDone.withLock({ $0 }) { return true }
        // Unstructured, so that a graceful shutdown can cancel it too. It is awaited here.
        let connecting = Task(operation: connect)
        return try await withTaskCancellationOrGracefulShutdownHandler {
            do {
                try await connecting.value
                return true
            } catch {
                if connecting.isCancelled { return false }
                throw error
            }
        } onCancelOrGracefulShutdown: {
            connecting.cancel()
        }
    }
}
