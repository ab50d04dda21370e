import Foundation
package import MegatonCluster
import UnixSignals

/// SIGINT, SIGTERM and SIGHUP as levels of urgency: the first drains, the second aborts. For a process that reads its
/// files again at SIGHUP, that one is none of them.
package enum ProcessSignals {
    /// Runs the body, with the signals converted to levels of `shutdown`.
    ///
    /// - Parameter hangUp: called at each SIGHUP; nil if that is a request to end.
    package static func forwarded<Value: Sendable>(
        to shutdown: ShutdownSignal,
        hangUp: (@Sendable () -> Void)? = nil,
        _ body: @Sendable () async throws -> Value
    ) async throws -> Value {
        // Trapped before the body begins: an earlier signal would end the process by its default action.
        let signals = await UnixSignalsSequence(
            trapping: hangUp == nil ? trapped : [.sigint, .sigterm, .sighup]
        )
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for await signal in signals {
                    if signal == .sighup, let hangUp {
                        hangUp()
                        continue
                    }
                    let isFirst = shutdown.level == .none
                    // The shell and the kernel both send it when a terminal is closed: that is one request.
                    if !isFirst && signal == .sighup { continue }
                    shutdown.raise(to: isFirst ? .drain : .abort)
                }
            }
            defer { group.cancelAll() }
            return try await body()
        }
    }

    /// Runs the body, and calls `change` at each change of the window's size (SIGWINCH) meanwhile.
    package static func followingWindow(
        _ change: @escaping @Sendable () -> Void,
        _ body: @Sendable () async -> Void
    ) async {
        // Trapped before the body begins: a change while it begins is not lost.
        let signals = await UnixSignalsSequence(trapping: [.sigwinch])
        await withTaskGroup(of: Void.self) { group in
            group.addTask { for await _ in signals { change() } }
            await body()
            group.cancelAll()
        }
    }

    /// SIGHUP stays ignored if it was ignored at the start, as `nohup` requests.
    private static var trapped: [UnixSignal] {
        var action = sigaction()
        sigaction(SIGHUP, nil, &action)
        // The handler is the first field; SIG_IGN is 1 (signal.h).
        let isIgnored = withUnsafeBytes(of: action) { $0.load(as: Int.self) } == 1
        return isIgnored ? [.sigint, .sigterm] : [.sigint, .sigterm, .sighup]
    }
}
