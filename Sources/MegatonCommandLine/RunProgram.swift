package import ArgumentParser
import Dispatch
import Foundation
import MegatonPipeline

extension AsyncParsableCommand {
    /// Parses the arguments, runs the command and ends the process: the `main` of each program.
    package static func runProgram() -> Never {
        // Before the first task: the threads that run tasks open descriptors, which would get the number of a closed
        // one.
        StandardStreams.openClosed()
        // A peer that closes its end causes an error of that write, and must not end the process.
        signal(SIGPIPE, SIG_IGN)
        // Safe without a parent: it lives as long as the process, which it ends.
        Task {
            await runCommand()
            Self.exit()
        }
        dispatchMain()
    }

    private static func runCommand() async {
        let arguments = Array(CommandLine.arguments.dropFirst())
        // Otherwise the general help would be printed, as if it were that of the misspelled command.
        if arguments.first == "help" { exitIfCommandIsUnknown(Array(arguments.dropFirst())) }
        do {
            var command = try parseAsRoot()
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch {
            if exitCode(for: error) == .validationFailure {
                exitIfCommandIsUnknown(arguments)
                exitIfOptionIsUnknown()
                exitIfNegativeValueIsInvalid(arguments)
            }
            printAndExit(error)
        }
    }

    /// Ends the process with an error, or with a text that was asked for: that of `--help` or `--version`.
    private static func printAndExit(_ end: any Error) -> Never {
        let text = fullMessage(for: end)
        guard exitCode(for: end) == .success, !text.isEmpty else { exit(withError: end) }
        do throws(CLIError) {
            try Terminal.output(text)
        } catch {
            Terminal.error("megaton: \(error.message)")
            exit(withError: ExitCode(error.code))
        }
        exit()
    }

    /// Reports an unknown command, and how it was probably meant: a misspelled one, or an input of `run`.
    private static func exitIfCommandIsUnknown(_ arguments: [String]) {
        guard let unknown = OptionNames.unknownCommand(in: arguments, definition: _dumpHelp()) else { return }
        var hint = ""
        if let near = Spelling.nearest(to: unknown.name, among: unknown.known + ["version"]) {
            hint = " Did you mean \(near == "version" ? "--version" : near)?"
        } else if unknown.name == "version" {
            hint = " Did you mean --version?"
        } else if unknown.known.contains("run") {
            hint = " Thumbnails are made by: \(unknown.command) run \(unknown.name) --output DIR."
        }
        Terminal.error(
            "Error: \(unknown.command) has no command \"\(unknown.name)\".\(hint)\n"
                + "Its commands are \(unknown.known.joined(separator: ", ")); see '\(unknown.command) --help'."
        )
        Self.exit(withError: ExitCode.validationFailure)
    }

    /// Reports a negative number by the bounds of its option: the parser takes it for an option (`--timeout -1`), and
    /// would only report a missing value.
    private static func exitIfNegativeValueIsInvalid(_ arguments: [String]) {
        guard let joined = OptionNames.joiningNegativeValues(arguments) else { return }
        do {
            _ = try parseAsRoot(joined)
        } catch {
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
