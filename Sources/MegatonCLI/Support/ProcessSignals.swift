import MegatonCluster
import UnixSignals

/// SIGINT and SIGTERM as levels of urgency: the first drains, the second aborts.
enum ProcessSignals {
    /// Runs the body with the signals turned into `shutdown`'s levels.
    static func forwarded<Value: Sendable>(
        to shutdown: ShutdownSignal,
        _ body: @Sendable () async throws -> Value
    ) async throws -> Value {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for await _ in await UnixSignalsSequence(trapping: .sigint, .sigterm) {
                    shutdown.raise(to: shutdown.level == .none ? .drain : .abort)
                }
            }
            defer { group.cancelAll() }
            return try await body()
        }
    }
}
