import Foundation
import Synchronization

/// A process started by a test. Signals go to its own id, and it ends with the object.
///
/// Spawned and waited for directly: Foundation's `Process` detects an end through a socket that other children inherit,
/// so that it may not notice the end while they live.
public final class ProgramUnderTest: Sendable {
    /// How the process ended, and its output.
    public struct Ending: Sendable {
        /// The exit code; 128 + n for signal n.
        public let code: Int32
        public let output: String
        public let errors: String
    }

    /// The process could not be started.
    public struct CannotStart: Error, CustomStringConvertible {
        /// Path of the program.
        public let program: String
        /// Error code of posix_spawn.
        public let code: Int32

        public var description: String {
            "\(program) did not start: \(String(cString: strerror(code))); ./scripts/test installs the tests' tools"
        }
    }

    /// Waits for the process' end and resumes the waiters.
    private final class End: Sendable {
        private let state = Mutex<(code: Int32?, waiting: [CheckedContinuation<Int32, Never>])>((nil, []))

        var code: Int32? { state.withLock { $0.code } }

        func land(_ code: Int32) {
            let waiting = state.withLock { state in
                state.code = code
                defer { state.waiting = [] }
                return state.waiting
            }
            for continuation in waiting { continuation.resume(returning: code) }
        }

        func wait() async -> Int32 {
            await withCheckedContinuation { continuation in
                let code = state.withLock { state -> Int32? in
                    if state.code == nil { state.waiting.append(continuation) }
                    return state.code
                }
                if let code { continuation.resume(returning: code) }
            }
        }
    }

    private let end = End()
    private let files: TestDirectory
    public let pid: Int32

    /// - Parameter environment: variables added to the test's own.
    public init(
        program: String,
        arguments: [String],
        environment: [String: String] = [:],
        directory: String? = nil
    ) throws {
        files = try TestDirectory()
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
        let create = O_WRONLY | O_CREAT | O_APPEND
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, files.path + "/out", create, 0o600)
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, files.path + "/err", create, 0o600)
        let variables = ProcessInfo.processInfo.environment.merging(environment) { _, new in new }
        // `env -C` changes the directory, and replaces itself by the program.
        let command = directory.map { ["/usr/bin/env", "-C", $0, program] } ?? [program]
        var argv = (command + arguments).map { strdup($0) } + [nil]
        var envp = variables.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for pointer in argv + envp { free(pointer) } }
        var child: pid_t = 0
        let code = posix_spawn(&child, command[0], &actions, nil, &argv, &envp)
        guard code == 0 else { throw CannotStart(program: program, code: code) }
        pid = child
        let (pid, end) = (pid, end)
        let thread = Thread {
            var status: Int32 = 0
            while waitpid(pid, &status, 0) < 0 && errno == EINTR {}
            let signal = status & 0x7F
            end.land(signal == 0 ? status >> 8 & 0xFF : 128 + signal)
        }
        thread.start()
    }

    /// The program `megaton`, which is built beside the tests. It reads no configuration file of this machine, unless
    /// the environment names one.
    public static func megaton(
        _ arguments: [String],
        environment: [String: String] = [:],
        directory: String? = nil
    ) throws -> ProgramUnderTest {
        try ProgramUnderTest(
            program: beside("megaton"),
            arguments: arguments,
            environment: ["MEGATON_CONFIG": "/dev/null"].merging(environment) { _, own in own },
            directory: directory
        )
    }

    /// The program `megaton-bench`, which is built beside the tests.
    public static func benchmarks(_ arguments: [String], directory: String? = nil) throws -> ProgramUnderTest {
        try ProgramUnderTest(program: beside("megaton-bench"), arguments: arguments, directory: directory)
    }

    /// A process that fills a disk cache until it is killed.
    public static func cacheWriter(_ arguments: [String]) throws -> ProgramUnderTest {
        try ProgramUnderTest(program: beside("MegatonCacheWriter"), arguments: arguments)
    }

    private static func beside(_ name: String) -> String {
        URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path + "/" + name
    }

    deinit { send(SIGKILL) }

    public var isRunning: Bool { end.code == nil }
    /// The exit code, 128 + n for signal n; nil while it runs.
    public var code: Int32? { end.code }

    /// Sends a signal to the process, if it still runs.
    public func send(_ signal: Int32) {
        if isRunning { kill(pid, signal) }
    }

    /// Waits for the process' end. If the waiting task is cancelled, for example by a test's time limit, the process is
    /// killed.
    public func ending() async -> Ending {
        let code = await withTaskCancellationHandler {
            await end.wait()
        } onCancel: {
            send(SIGKILL)
        }
        return Ending(code: code, output: output, errors: errors)
    }

    /// Returns once standard output fulfils a condition, or the process and its children have closed it.
    public func waitForOutput(until condition: @escaping @Sendable (String) -> Bool) async throws {
        try await TestDirectory.waitForContent(of: files.path + "/out", until: condition)
    }

    /// Returns once standard error fulfils a condition, or the process and its children have closed it.
    public func waitForErrors(until condition: @escaping @Sendable (String) -> Bool) async throws {
        try await TestDirectory.waitForContent(of: files.path + "/err", until: condition)
    }

    /// Standard output so far.
    public var output: String { (try? String(contentsOfFile: files.path + "/out", encoding: .utf8)) ?? "" }
    /// Standard error so far.
    public var errors: String { (try? String(contentsOfFile: files.path + "/err", encoding: .utf8)) ?? "" }
}
