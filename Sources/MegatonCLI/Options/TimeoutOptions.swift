import ArgumentParser
import Foundation
import MegatonCommandLine

/// Time limit of a command that waits for a condition.
struct TimeoutOptions: ParsableArguments {
    @Option(name: .long, help: ArgumentHelp("How long to wait; by default without a limit.", valueName: "seconds"))
    var timeout: Double?

    /// Polling interval.
    private static let interval: Duration = .milliseconds(250)

    mutating func validate() throws {
        if let timeout, !(timeout >= 0 && timeout < 1e9) {
            throw ValidationError("--timeout must be a number of seconds of at least 0, not \(timeout.formatted()).")
        }
    }

    /// Polls until there is a value.
    ///
    /// - Throws: `CLIError` 75 that names the missing condition after the time limit.
    func wait<Value>(orElse missing: () -> String, for poll: () async throws -> Value?) async throws -> Value {
        let deadline = timeout.map { ContinuousClock.now + .seconds($0) }
        while true {
            if let value = try await poll() { return value }
            if let deadline, ContinuousClock.now >= deadline {
                throw CLIError(code: 75, message: "\(missing()) after \((timeout ?? 0).formatted()) s.")
            }
            try await Task.sleep(for: Self.interval)
        }
    }
}
