import MegatonCluster
import UnixSignals

/// SIGINT and SIGTERM as levels of urgency: the first drains, the second aborts.
enum ProcessSignals {
    /// Runs the body with the signals turned into `shutdown`'s levels.
    static func forwarded<Value: Sendable>(
        to shutdown: ShutdownSignal,
        _ body: @Sendable () async throws -> Value
    ) async throws -> Value {
        // Trapped before the body begins: a signal that came between would end the process by its default action.
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for await _ in signals {
                    shutdown.raise(to: shutdown.level == .none ? .drain : .abort)
                }
            }
            defer { group.cancelAll() }
            return try await body()
        }
    }
}
