import Foundation
import Logging
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOPosix

/// A cluster of real processes: Redis, coordinators and workers, each with its own history. All of them are ended by
/// their own process ids.
///
/// Not safe for concurrent use.
final class Fleet {
    /// Arguments of the processes.
    struct Options {
        /// URL of the control Redis, or of a proxy in front of it; several with spaces in between for several shards.
        var control: String
        /// URL of the cache Redis, or of a proxy in front of it.
        var cache: String
        /// The program to run.
        var program: String
        /// Directory for outputs and histories.
        var directory: String
        /// Further arguments of each worker.
        var workerArguments: [String] = []
    }

    /// A process that can be killed and started again.
    final class Member {
        let number: Int
        fileprivate(set) var process: ProgramUnderTest
        /// History of the current process; each restart has a new one.
        fileprivate(set) var history: String
        /// Arguments of its own, behind those of all workers.
        fileprivate let arguments: [String]

        fileprivate init(_ number: Int, _ process: ProgramUnderTest, _ history: String, _ arguments: [String]) {
            self.number = number
            self.arguments = arguments
            self.process = process
            self.history = history
        }
    }

    let options: Options
    private(set) var workers: [Member] = []
    private(set) var coordinators: [ProgramUnderTest] = []
    private var lives = 0

    init(_ options: Options) throws {
        self.options = options
        for name in ["out", "history"] {
            try FileManager.default.createDirectory(
                atPath: "\(options.directory)/\(name)",
                withIntermediateDirectories: true
            )
        }
    }

    private var controls: [String] { options.control.split(separator: " ").flatMap { ["--redis", String($0)] } }

    private var redis: [String] { controls + ["--cache-redis", options.cache] }
    var outputs: String { options.directory + "/out" }
    var histories: String { options.directory + "/history" }

    // MARK: - Starting

    func startCoordinators(_ count: Int) throws {
        for _ in 0..<count { coordinators.append(try launch(["coordinator"] + redis)) }
    }

    func startWorkers(_ count: Int) throws { try startWorkers(Array(repeating: [], count: count)) }

    /// Starts a worker for each list of arguments of its own.
    func startWorkers(_ arguments: [[String]]) throws {
        for own in arguments {
            let (process, history) = try launchWorker(own)
            workers.append(Member(workers.count, process, history, own))
        }
    }

    /// Restarts a worker that has ended.
    func restart(_ member: Member) throws { (member.process, member.history) = try launchWorker(member.arguments) }

    /// Launches a worker that takes only suspects, and ends when there are none. The caller waits for it.
    func launchSuspectsWorker() throws -> ProgramUnderTest { try launchWorker(["--only-suspects"]).0 }

    /// Restarts a coordinator that has ended.
    func restartCoordinator(_ index: Int) throws { coordinators[index] = try launch(["coordinator"] + redis) }

    /// Acts as the processes' supervisor (`Restart=always`): restarts those that exited with 69 because they found no
    /// Redis at their start. Processes that ended with another code are left for ``stop(within:)`` to report.
    ///
    /// - Returns: number of processes restarted.
    func supervise() throws -> Int {
        var started = 0
        for member in workers where member.process.code == Self.unavailable {
            try restart(member)
            started += 1
        }
        for index in coordinators.indices where coordinators[index].code == Self.unavailable {
            try restartCoordinator(index)
            started += 1
        }
        return started
    }

    /// EX_UNAVAILABLE of sysexits.h.
    private static let unavailable: Int32 = 69

    private func launchWorker(_ own: [String]) throws -> (ProgramUnderTest, String) {
        lives += 1
        let history = "\(histories)/worker-\(lives).jsonl"
        let process = try launch(
            [
                "worker", "--allow-root", outputs, "--allow-private", "--render-threads", "1", "--history", history,
                "--log-level", "warning",
            ] + redis + options.workerArguments + own
        )
        return (process, history)
    }

    /// Launches any other command of the program; adds `--redis`.
    func launch(command: [String]) throws -> ProgramUnderTest { try launch(command + controls) }

    /// Launches a command of `megaton-bench`, which is beside the program; adds `--redis`.
    func launch(benchmark: [String]) throws -> ProgramUnderTest {
        try ProgramUnderTest(
            program: URL(fileURLWithPath: options.program).deletingLastPathComponent().path + "/megaton-bench",
            arguments: benchmark + ["--redis", options.control]
        )
    }

    private func launch(_ arguments: [String]) throws -> ProgramUnderTest {
        try ProgramUnderTest(program: options.program, arguments: arguments)
    }

    // MARK: - Ending

    /// Ends all processes with SIGTERM. A process that does not end in time is stuck: it is killed and reported.
    ///
    /// - Returns: a line for each problem.
    func stop(within patience: Duration) async -> [String] {
        let processes =
            workers.map { ("worker \($0.number)", $0.process) } + coordinators.map { ("coordinator", $0) }
        for (_, process) in processes { process.send(SIGTERM) }
        var complaints: [String] = []
        for (name, process) in processes {
            let code = await Self.ending(of: process, within: patience)
            switch code {
            case nil:
                complaints.append("\(name) (\(process.pid)) was stuck. \(process.errors.suffix(300))")
                process.send(SIGKILL)
                _ = await process.ending()
            // Only a process at its start exits with 69 (see ``supervise()``); a running one waits for Redis.
            case 0, 128 + SIGKILL, Self.unavailable: break
            default: complaints.append("\(name) ended with \(code ?? -1). \(process.errors.suffix(300))")
            }
        }
        return complaints
    }

    /// The exit code, or nil if the process has not ended in time.
    static func ending(of process: ProgramUnderTest, within patience: Duration) async -> Int32? {
        await withTaskGroup(of: Int32?.self) { group in
            group.addTask { await process.ending().code }
            group.addTask {
                // The end of the process cancels the sleep.
                try? await ContinuousClock().sleep(for: patience)
                if !Task.isCancelled { process.send(SIGKILL) }
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first
        }
    }
}
