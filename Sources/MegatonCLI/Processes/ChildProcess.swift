import Foundation
import Subprocess
import SystemPackage

/// A process of ours that cannot outlive us: the kernel ends it with SIGTERM when we die, however we die
/// (`setpriv --pdeathsig`), and it is in a process group of its own, so that a Ctrl-C of the terminal reaches us alone.
///
/// swift-subprocess spawns from one thread that lasts as long as the process, which the death signal needs: it is sent
/// when the spawning thread ends.
struct ChildProcess: Sendable {
    /// Program and arguments.
    let command: [String]
    /// Added to our own environment: what must not stand in `argv`.
    var environment: [String: String] = [:]
    /// Where standard error and standard output go. If nil, the first is ours and the second is discarded.
    var log: String?
    /// How long it may take to end after SIGTERM; then SIGKILL.
    var patience: Duration = .seconds(30)

    /// How it ended.
    enum Ending: Sendable, Equatable, CustomStringConvertible {
        case exited(Int32)
        case signalled(Int32)

        var description: String {
            switch self {
            case .exited(let code): "exit code \(code)"
            case .signalled(let signal): "signal \(signal)"
            }
        }
    }

    /// Runs until it ends. Cancelling the task ends it: SIGTERM, and SIGKILL where that does not help.
    ///
    /// - Parameter onStart: called with the process' id.
    /// - Throws: `Failure` where it cannot be started.
    func run(onStart: @Sendable (Int32) -> Void = { _ in }) async throws -> Ending {
        var options = PlatformOptions()
        options.processGroupID = 0
        options.teardownSequence = [.send(signal: .terminate, allowedDurationToNextStep: patience)]
        var variables: [Environment.Key: String] = [:]
        for (name, value) in environment { variables[Environment.Key(stringLiteral: name)] = value }
        let configuration = Configuration(
            executable: .path("/usr/bin/setpriv"),
            arguments: Arguments(["--pdeathsig", "TERM", "--"] + command),
            environment: .inherit.updating(variables.mapValues { Optional($0) }),
            platformOptions: options
        )
        let status: TerminationStatus
        do {
            if let log {
                let file = try Self.open(log)
                status = try await Subprocess.run(
                    configuration,
                    input: .none,
                    output: .fileDescriptor(file, closeAfterSpawningProcess: false),
                    error: .fileDescriptor(file, closeAfterSpawningProcess: true)
                ) { onStart($0.processIdentifier.value) }.terminationStatus
            } else {
                status = try await Subprocess.run(
                    configuration,
                    input: .none,
                    output: .discarded,
                    error: .currentStandardError
                ) { onStart($0.processIdentifier.value) }.terminationStatus
            }
        } catch let error as SubprocessError {
            throw Failure.broken("\(command.first ?? "") cannot be started: \(error)")
        }
        return switch status {
        case .exited(let code): .exited(code)
        case .signaled(let signal): .signalled(signal)
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
            throw Failure.output("\(log) cannot be written: \(error).")
        }
    }
}
