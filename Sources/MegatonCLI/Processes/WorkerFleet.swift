import Foundation
import MegatonCluster
import MegatonCommandLine
import Synchronization

/// The worker processes of one run: each is restarted when it dies.
///
/// A death that an image caused does not count against the fleet: the queue quarantines the image after three. A worker
/// is given up only if it cannot start, or if workers keep dying while no job ends.
struct WorkerFleet: Sendable {
    let count: Int
    /// Arguments of `megaton worker`.
    let arguments: [String]
    /// The URLs of Redis, which may contain passwords.
    let environment: [String: String]
    /// Whether the logs of the workers go to files, whose ends are shown when a worker dies; otherwise to standard
    /// error.
    let keepsLogs: Bool
    /// Reports the death of a process to the queue, so that its jobs go to others at once; nil if Redis is unreachable.
    let report: @Sendable (_ pid: Int32) async -> JobQueue.WorkerExit?

    /// Number of consecutive starts without a registration after which a worker is given up.
    private static let failedStartLimit = 5
    /// Number of consecutive deaths after which a worker is given up, if no job of the queue has ended meanwhile.
    private static let deathsWithoutProgressLimit = 20
    /// Lifetime after which a death counts as unrelated to earlier ones.
    private static let longLife: Duration = .seconds(60)
    private static let restartDelay: Duration = .milliseconds(200)
    /// Pause after a process that could not be started.
    private static let pauseAfterFailedStart: Duration = .seconds(2)
    /// Exit code of a worker that cannot reach Redis.
    private static let redisUnavailableCode: Int32 = 69

    /// Keeps the workers running until the task is cancelled, and then stops them.
    ///
    /// - Throws: `CLIError` when the last of them was given up: 69 if they did not find Redis, otherwise 70.
    func run() async throws {
        let logs = keepsLogs ? try TemporaryDirectory() : nil
        defer { logs?.remove() }
        let failure = try await withThrowingTaskGroup(of: CLIError?.self) { group in
            for number in 1...count { group.addTask { try await keepRunning(number, logs) } }
            var (last, left): (CLIError?, Int) = (nil, count)
            for try await failure in group {
                left -= 1
                guard let failure else { continue }
                last = failure
                if left > 0 && !Task.isCancelled {
                    let rest = left == 1 ? "1 worker is" : "\(left) workers are"
                    Terminal.error("megaton: \(failure.message) \(rest) left.")
                }
            }
            return last
        }
        if let failure, !Task.isCancelled { throw failure }
    }

    /// - Returns: the reason why the worker was given up; nil if the task was cancelled.
    private func keepRunning(_ number: Int, _ logs: TemporaryDirectory?) async throws -> CLIError? {
        let program = try CommandLineProgram.path()
        let log = logs.map { "\($0.path)/worker-\(number).log" }
        let child = ChildProcess(
            command: [program, "worker"] + arguments,
            environment: environment,
            log: log,
            gracePeriod: .seconds(10),
            lock: logs?.lockPath
        )
        var deaths = Deaths()
        while true {
            let birth = ContinuousClock.now
            let logStart = log.map(LogTail.size) ?? 0
            let pid = Mutex<Int32>(0)
            let termination: ChildProcess.Termination
            do {
                termination = try await child.run { id in pid.withLock { $0 = id } }
            } catch let error as CLIError where !Task.isCancelled {
                // The resource that a start lacks may be there in a moment, and the other workers live.
                deaths.addFailedStart()
                if deaths.failedStarts >= Self.failedStartLimit { return error }
                Terminal.error("megaton: worker \(number) is started again: \(error.message)")
                try? await Task.sleep(for: Self.pauseAfterFailedStart)  // Cancelled: the next start ends at once.
                continue
            }
            if Task.isCancelled { return nil }
            deaths.add(
                await report(pid.withLock { $0 }),
                isQuick: birth.duration(to: .now) < Self.longLife
            )
            let errors = log.map { LogTail.errors(ofLog: $0, from: logStart) } ?? ""
            let tail = errors.isEmpty ? "" : " Its log: \(errors)"
            if deaths.failedStarts >= Self.failedStartLimit {
                let message =
                    "worker \(number) cannot start: it ended \(deaths.failedStarts) times before it registered, last "
                    + "with \(termination).\(tail)"
                return CLIError(code: termination == .exited(Self.redisUnavailableCode) ? 69 : 70, message: message)
            }
            if deaths.withoutProgress >= Self.deathsWithoutProgressLimit {
                return CLIError.broken(
                    "worker \(number) ended \(deaths.withoutProgress) times while no job ended, last with "
                        + "\(termination); it is not started again.\(tail)"
                )
            }
            Terminal.error(
                "megaton: worker \(number) ended (\(termination)) and is started again; its jobs go to others.\(tail)"
            )
            try? await Task.sleep(for: Self.restartDelay)  // Cancelled: the next start ends at once.
        }
    }

    /// Consecutive deaths of one worker.
    private struct Deaths {
        private(set) var failedStarts = 0
        private(set) var withoutProgress = 0
        private var ended: Int?

        /// Counts a process that could not be started.
        mutating func addFailedStart() { failedStarts += 1 }

        /// - Parameter isQuick: whether the process lived only for a short time.
        mutating func add(_ exit: JobQueue.WorkerExit?, isQuick: Bool) {
            failedStarts = isQuick && exit?.hadRegistered != true ? failedStarts + 1 : 0
            let hadNoProgress = isQuick && exit?.ended == ended
            withoutProgress = hadNoProgress ? withoutProgress + 1 : 1
            ended = exit?.ended
        }
    }
}
