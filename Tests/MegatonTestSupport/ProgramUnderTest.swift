import Foundation
import Synchronization

/// A process that a test started: signalled by its own id, and ended with the object.
public final class ProgramUnderTest: Sendable {
    /// How it ended, and what it said.
    public struct Ending: Sendable {
        /// The exit code; 128 + n for signal n.
        public let code: Int32
        public let output: String
        public let errors: String
    }

    /// Waits for the process' end and tells those who ask.
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

    private let process: Mutex<Process>
    private let end = End()
    private let files: TestDirectory
    public let pid: Int32

    /// - Parameter environment: added to the test's own.
    public init(program: String, arguments: [String], environment: [String: String] = [:], directory: String? = nil)
        throws
    {
        files = try TestDirectory()
        let child = Process()
        child.executableURL = URL(fileURLWithPath: program)
        child.arguments = arguments
        child.environment = ProcessInfo.processInfo.environment.merging(environment) { _, new in new }
        if let directory { child.currentDirectoryURL = URL(fileURLWithPath: directory) }
        child.standardInput = FileHandle.nullDevice
        child.standardOutput = try Self.file(files.path + "/out")
        child.standardError = try Self.file(files.path + "/err")
        process = Mutex(child)
        let end = end
        child.terminationHandler = { child in
            end.land(child.terminationReason == .exit ? child.terminationStatus : 128 + child.terminationStatus)
        }
        try child.run()
        pid = child.processIdentifier
    }

    /// The program that is built beside the tests.
    public static func megaton(
        _ arguments: [String],
        environment: [String: String] = [:],
        directory: String? = nil
    ) throws -> ProgramUnderTest {
        let folder = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path
        return try ProgramUnderTest(
            program: folder + "/megaton",
            arguments: arguments,
            environment: environment,
            directory: directory
        )
    }

    deinit { send(SIGKILL) }

    public var isRunning: Bool { end.code == nil }

    /// Sends a signal to this process, if it is still there.
    public func send(_ signal: Int32) {
        if isRunning { kill(pid, signal) }
    }

    /// Waits for its end.
    public func ending() async -> Ending {
        let code = await end.wait()
        return Ending(code: code, output: output, errors: errors)
    }

    /// What it has written to standard output so far.
    public var output: String { (try? String(contentsOfFile: files.path + "/out", encoding: .utf8)) ?? "" }
    /// What it has written to standard error so far.
    public var errors: String { (try? String(contentsOfFile: files.path + "/err", encoding: .utf8)) ?? "" }

    private static func file(_ path: String) throws -> FileHandle {
        _ = FileManager.default.createFile(atPath: path, contents: nil)
        return try FileHandle(forWritingTo: URL(fileURLWithPath: path))
    }
}
