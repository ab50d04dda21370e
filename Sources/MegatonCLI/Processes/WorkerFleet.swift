import Foundation
import Synchronization

/// The worker processes of one run: each is started again when it dies, within limits.
struct WorkerFleet: Sendable {
    let count: Int
    /// Arguments of `megaton worker`.
    let arguments: [String]
    /// The Redis URLs, which may carry passwords.
    let environment: [String: String]
    /// The workers' logs go to files, and their last words are shown when one dies; else to our standard error.
    let keepsLogs: Bool

    /// Deaths in quick succession after which a worker is given up: whatever kills it so often will go on doing so.
    private static let deathLimit = 20
    /// A worker that lived for so long died of something new.
    private static let longLife: Duration = .seconds(60)
    private static let restartDelay: Duration = .milliseconds(200)

    /// Keeps the workers running until the task is cancelled, and then ends them.
    ///
    /// - Throws: `Failure` when the last of them was given up.
    func run() async throws {
        let logs = keepsLogs ? try TemporaryDirectory() : nil
        defer { logs?.remove() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...count { group.addTask { try await keepRunning(number, logs) } }
            try await group.waitForAll()
        }
        if !Task.isCancelled {
            throw Failure.unavailable("all workers died again and again; what they said last stands above.")
        }
    }

    private func keepRunning(_ number: Int, _ logs: TemporaryDirectory?) async throws {
        guard let program = CommandLineProgram.path else {
            throw Failure.unavailable("the program's own path is not known: /proc is not mounted?")
        }
        let log = logs.map { "\($0.path)/worker-\(number).log" }
        let child = ChildProcess(
            command: [program, "worker"] + arguments,
            environment: environment,
            log: log,
            patience: .seconds(10)
        )
        var deaths = 0
        while deaths < Self.deathLimit {
            let birth = ContinuousClock.now
            let ending = try await child.run()
            if Task.isCancelled { return }
            deaths = birth.duration(to: .now) > Self.longLife ? 1 : deaths + 1
            Terminal.error(
                "megaton: worker \(number) ended (\(ending)) and is started again; its jobs go to others."
                    + Self.lastWords(log)
            )
            try? await Task.sleep(for: Self.restartDelay)  // Cancelled: the next start ends at once.
        }
    }

    private static func lastWords(_ log: String?) -> String {
        // However long the log has become; without one there are no words, and its death is told all the same.
        guard let log, let file = FileHandle(forReadingAtPath: log) else { return "" }
        let end = (try? file.seekToEnd()) ?? 0
        try? file.seek(toOffset: end > lastBytes ? end - lastBytes : 0)
        let text = String(decoding: (try? file.read(upToCount: Int(lastBytes))) ?? Data(), as: UTF8.self)
        return text.isEmpty ? "" : " Its last words: " + text.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Of a worker's log that are shown when it dies.
    private static let lastBytes: UInt64 = 400
}

/// Ourselves, to be started again.
enum CommandLineProgram {
    static var path: String? {
        // Nil where there is no /proc: who asks says so.
        try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    }
}
