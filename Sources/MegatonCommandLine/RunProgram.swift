package import ArgumentParser
import Foundation

extension AsyncParsableCommand {
    /// Parses the arguments, runs the command and ends the process: the `main` of each program.
    package static func runProgram() async {
        // A peer that closes its end causes an error of that write, and must not end the process.
        signal(SIGPIPE, SIG_IGN)
        do {
            var command = try parseAsRoot()
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch {
            if exitCode(for: error) == .validationFailure { exitIfOptionIsUnknown() }
            exit(withError: error)
        }
    }

    /// Reports an unknown option first, whatever else is wrong.
    private static func exitIfOptionIsUnknown() {
        let arguments = Array(CommandLine.arguments.dropFirst())
        guard let unknown = OptionNames.unknown(in: arguments, definition: _dumpHelp()) else { return }
        let hint = unknown.like.map { " Did you mean \($0)?" } ?? ""
        Terminal.error(
            "Error: \(unknown.command) has no option \(unknown.option).\(hint)\n"
                + "See '\(unknown.command) --help' for its options."
        )
        Self.exit(withError: ExitCode.validationFailure)
    }
}
