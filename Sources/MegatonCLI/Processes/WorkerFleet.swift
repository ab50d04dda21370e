import Foundation
import Synchronization

/// The worker processes of one run: each is started again when it dies, within limits.
struct WorkerFleet: Sendable {
    let count: Int
    /// Arguments of `megaton worker`.
    let arguments: [String]
    /// The Redis URLs, which may carry passwords.
    let environment: [String: String]
    /// Where the workers' logs go; our standard error if nil.
    let logDirectory: String?

    /// Deaths after which a worker is given up: whatever kills it so often will go on doing so.
    private static let deathLimit = 20
    private static let restartDelay: Duration = .milliseconds(200)

    /// Keeps the workers running until the task is cancelled, and then ends them.
    ///
    /// - Throws: `Failure` when the last of them was given up.
    func run() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...count { group.addTask { try await keepRunning(number) } }
            try await group.waitForAll()
        }
        if !Task.isCancelled { throw Failure.unavailable("all workers died again and again; see their logs.") }
    }

    private func keepRunning(_ number: Int) async throws {
        guard let program = CommandLineProgram.path else {
            throw Failure.unavailable("the program's own path is not known: /proc is not mounted?")
        }
        let log = logDirectory.map { "\($0)/worker-\(number).log" }
        let child = ChildProcess(command: [program, "worker"] + arguments, environment: environment, log: log)
        for _ in 0..<Self.deathLimit {
            let ending = try await child.run()
            if Task.isCancelled { return }
            Terminal.error(
                "megaton: worker \(number) ended (\(ending)) and is started again; its jobs go to others."
                    + (log.map { " Its log: \($0)" } ?? ""))
            try? await Task.sleep(for: Self.restartDelay)  // Cancelled: the next start ends at once.
        }
    }
}

/// Ourselves, to be started again.
enum CommandLineProgram {
    static var path: String? {
        try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    }
}
