import Foundation
import MegatonCluster
import Subprocess
import Synchronization
import SystemPackage

/// A child process that cannot outlive this one: the kernel sends it SIGTERM when this process dies for any reason
/// (`setpriv --pdeathsig`). It has a process group of its own, so that a Ctrl-C on the terminal reaches only this
/// process.
///
/// swift-subprocess spawns from one thread that lasts as long as the process. The death signal depends on that: the
/// kernel sends it when the spawning thread ends.
package struct ChildProcess: Sendable {
    /// Program and arguments.
    package let command: [String]
    /// Variables added to this process' environment, of which it has all but those of the service manager: values that
    /// must not be in `argv`.
    package var environment: [String: String]
    /// File for standard error and standard output. If nil, standard error is inherited and standard output is
    /// discarded.
    package var log: String?
    /// Time limit between SIGTERM and SIGKILL.
    package var gracePeriod: Duration
    /// File that the process locks (shared) until it ends: `TemporaryDirectory.lockPath` of a directory that it uses.
    package var lock: String?

    package init(
        command: [String],
        environment: [String: String] = [:],
        log: String? = nil,
        gracePeriod: Duration = .seconds(30),
        lock: String? = nil
    ) {
        self.command = command
        self.environment = environment
        self.log = log
        self.gracePeriod = gracePeriod
        self.lock = lock
    }

    /// How the process ended.
    package enum Termination: Sendable, Equatable, CustomStringConvertible {
        case exited(Int32)
        case signaled(Int32)

        package var description: String {
            switch self {
            case .exited(let code): "exit code \(code)"
            case .signaled(let signal): "signal \(signal)"
            }
        }
    }

    /// Descriptors that a start may need. If one of them is missing, swift-subprocess ends this process, or waits for
    /// ever for a child that has ended.
    private static let descriptors = 16
    /// Starts under way in this process, which take descriptors from each other.
    private static let starts = Mutex(0)
    /// Most starts at a time; others wait. A run starts a worker for each processor at once.
    private static let startsAtOnce = 8
    /// Pause after which one that waits tries again.
    private static let startInterval: Duration = .milliseconds(5)

    /// Runs until the process ends. Cancelling the task ends it: SIGTERM, and SIGKILL after `gracePeriod`.
    ///
    /// - Parameter onStart: called with the process id.
    /// - Throws: `CLIError` if the process cannot be started.
    package func run(onStart: @Sendable (Int32) -> Void = { _ in }) async throws -> Termination {
        var options = PlatformOptions()
        options.processGroupID = 0
        options.teardownSequence = [.send(signal: .terminate, allowedDurationToNextStep: gracePeriod)]
        var variables: [Environment.Key: String?] = [:]
        // The service manager expects notifications of this process alone. A variable without a value is removed.
        for name in ServiceManager.variables {
            variables.updateValue(nil, forKey: Environment.Key(stringLiteral: name))
        }
        for (name, value) in environment { variables[Environment.Key(stringLiteral: name)] = .some(value) }
        // flock comes first, so that the exit code of a command that cannot be executed is setpriv's.
        let locking = lock.map { ["/usr/bin/flock", "--shared", "--no-fork", $0] } ?? []
        let line = locking + ["/usr/bin/setpriv", "--pdeathsig", "TERM", "--"] + command
        let configuration = Configuration(
            executable: .path(FilePath(line[0])),
            arguments: Arguments(Array(line.dropFirst())),
            environment: .inherit.updating(variables),
            platformOptions: options
        )
        guard try await Self.beginStart() else {
            throw CLIError.system(
                "\(command.first ?? "") cannot be started: too many open files. Raise the limit (ulimit -n, or "
                    + "LimitNOFILE of the unit)."
            )
        }
        let isStarting = Mutex(true)
        func started() {
            let wasStarting = isStarting.withLock { value in
                defer { value = false }
                return value
            }
            if wasStarting { Self.starts.withLock { $0 -= 1 } }
        }
        // Also after a failure.
        defer { started() }
        let status: TerminationStatus
        do {
            if let log {
                let file = try Self.open(log)
                status = try await Subprocess.run(
                    configuration,
                    input: .none,
                    output: .fileDescriptor(file, closeAfterSpawningProcess: false),
                    error: .fileDescriptor(file, closeAfterSpawningProcess: true)
                ) {
                    started()
                    onStart($0.processIdentifier.value)
                }.terminationStatus
            } else {
                status = try await Subprocess.run(
                    configuration,
                    input: .none,
                    output: .discarded,
                    error: .currentStandardError
                ) {
                    started()
                    onStart($0.processIdentifier.value)
                }.terminationStatus
            }
        } catch let error as SubprocessError {
            throw CLIError.broken("\(command.first ?? "") cannot be started: \(error)")
        }
        return switch status {
        case .exited(let code): .exited(code)
        case .signaled(let signal): .signaled(signal)
        }
    }

    /// Waits until few other starts are under way.
    ///
    /// - Returns: false if there are too few descriptors.
    /// - Throws: `CancellationError`.
    private static func beginStart() async throws -> Bool {
        while true {
            let hasRoom: Bool? = starts.withLock { count in
                if count >= startsAtOnce { return nil }
                let hasRoom = OpenFiles.haveRoom(for: descriptors * (count + 1))
                if hasRoom { count += 1 }
                return hasRoom
            }
            if let hasRoom { return hasRoom }
            try await Task.sleep(for: startInterval)
        }
    }

    private static func open(_ log: String) throws -> FileDescriptor {
        do {
            return try FileDescriptor.open(
                FilePath(log),
                .writeOnly,
                options: [.create, .append],
                permissions: .ownerReadWrite
            )
        } catch {
            throw CLIError.output("the log \(log) cannot be written: \(error).")
        }
    }
}
