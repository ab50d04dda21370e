package import ArgumentParser
internal import CMalloc
import Dispatch
import Foundation
import MegatonPipeline

extension AsyncParsableCommand {
    /// Parses the arguments, runs the command and ends the process: the `main` of each program.
    ///
    /// - Parameter rules: options that come from variables and files.
    package static func runProgram(_ rules: ConfigurationRules) -> Never {
        // Before the first task: the threads that run tasks open descriptors, which would get the number of a closed
        // one.
        StandardStreams.openClosed()
        limitArenas()
        // A peer that closes its end causes an error of that write, and must not end the process.
        signal(SIGPIPE, SIG_IGN)
        exitIfArgumentIsNotUTF8()
        // On this thread, which runs no task: a file may be a pipe.
        let program = Program(root: Self.self, rules: rules, arguments: arguments(rules))
        // Safe without a parent: it lives as long as the process, which it ends. Without a priority it would have that
        // of the main thread. Tasks that it does not start have the default one, and each priority has threads of its
        // own (libdispatch), so that a job would change threads whenever it waits for one of these.
        Task(priority: .medium) {
            await runCommand(program)
            Self.exit()
        }
        dispatchMain()
    }

    /// Limits the arenas of glibc's allocator to one for two processors. By default each thread gets one of its own, up
    /// to eight for each processor, and memory that is free in one is no use to the others: bodies arrive on one
    /// thread and are released on another.
    ///
    /// `MALLOC_ARENA_MAX` and `GLIBC_TUNABLES` of the environment have precedence.
    private static func limitArenas() {
        let environment = ProcessInfo.processInfo.environment
        if environment["MALLOC_ARENA_MAX"] != nil || environment["GLIBC_TUNABLES"]?.contains("arena_max") == true {
            return
        }
        // Fails only for a value that glibc refuses, after which its own limit holds.
        _ = mallopt(M_ARENA_MAX, Int32(clamping: max(1, ProcessInfo.processInfo.activeProcessorCount / 2)))
    }

    /// Ends the process if an argument is not UTF-8. Swift's text of it has U+FFFD for such bytes, which is the name of
    /// another file or directory.
    private static func exitIfArgumentIsNotUTF8() {
        for index in 1..<max(Int(CommandLine.argc), 1) {
            guard let bytes = CommandLine.unsafeArgv[index], String(validatingCString: bytes) == nil else { continue }
            Terminal.error(
                "Error: argument \(index), \"\(TextColumns.oneLine(String(cString: bytes)))\", is not UTF-8. Rename the "
                    + "file or directory, or name a directory above it: the ledger reports each file with such a name."
            )
            quit(.validationFailure)
        }
    }

    /// The arguments with variables and files; ends the process if these are invalid.
    private static func arguments(_ rules: ConfigurationRules) -> CommandLineArguments {
        do throws(CLIError) {
            let all = try CommandLineArguments(
                Array(CommandLine.arguments.dropFirst()),
                root: Self.self,
                rules: rules
            )
            for remark in all.remarks { Terminal.error("megaton: \(remark)") }
            OptionOrigins.set(all.configured?.origins ?? [:])
            return all
        } catch {
            Terminal.error("megaton: \(error.message)")
            exit(withError: ExitCode(error.code))
        }
    }

    private static func runCommand(_ program: Program) async {
        let arguments = program.arguments.typed
        // Otherwise the general help would be printed, as if it were that of the misspelled command.
        if arguments.first == "help" { exitIfCommandIsUnknown(Array(arguments.dropFirst())) }
        do {
            var command = try parseAsRoot(program.arguments.arguments)
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch {
            // Asked for once: for each question about an error, the parser describes the whole command, which takes a
            // debug build a tenth of a second or more.
            let code = error as? ExitCode ?? exitCode(for: error)
            // `--help` behind a misspelled command would print the help of the program, with exit code 0.
            if code == .success { exitIfCommandIsUnknown(arguments) }
            // The parser takes `-thumbnail` for `-t -h …`, and would print the help.
            if code == .success && OptionNames.haveBundle(arguments) { exitIfOptionIsUnknown(arguments) }
            if code == .validationFailure {
                exitIfCommandIsUnknown(arguments)
                exitIfShellIsUnknown(arguments)
                exitIfOptionIsUnknown(arguments)
                exitIfNegativeValueIsInvalid(program)
                exitIfValueIsNoNumber(error, program)
            }
            printAndExit(error, code, program)
        }
    }

    /// Ends the process with an error, or with a text that was asked for: that of `--help` or `--version`.
    private static func printAndExit(_ end: any Error, _ code: ExitCode, _ program: Program) -> Never {
        if end is ExitCode { quit(code) }
        guard code == .success else {
            program.exitIfConfigured(message(for: end))
            exit(withError: end)
        }
        let text = fullMessage(for: end)
        if text.isEmpty { exit() }
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
        // The definition of the whole program takes the parser ten times as long as that of one command.
        guard CommandPath.find(in: arguments, root: Self.self) == nil else { return }
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
        quit(.validationFailure)
    }

    /// Reports a negative number by the bounds of its option: the parser takes it for an option (`--timeout -1`), and
    /// would only report a missing value.
    private static func exitIfNegativeValueIsInvalid(_ program: Program) {
        guard let joined = OptionNames.joiningNegativeValues(program.arguments.arguments) else { return }
        do {
            _ = try parseAsRoot(joined)
        } catch {
            program.exitIfConfigured(message(for: error))
            exit(withError: error)
        }
    }

    /// Reports a shell without completions. The option is the parser's own, and in the description of no command.
    private static func exitIfShellIsUnknown(_ arguments: [String]) {
        let option = "--generate-completion-script"
        let visible = arguments.prefix { $0 != "--" }
        guard let index = visible.firstIndex(where: { $0 == option || $0.hasPrefix("\(option)=") }) else { return }
        let isJoined = visible[index] != option
        let shell = isJoined ? String(visible[index].dropFirst(option.count + 1)) : visible.dropFirst(index + 1).first
        if let shell, CompletionShell(rawValue: shell) != nil { return }
        let value = shell.map { ", not \"\($0)\"" } ?? ""
        Terminal.error("Error: \(option) must be bash, zsh or fish\(value).")
        quit(.validationFailure)
    }

    /// Reports a value that is no number by the bounds of its option, which the parser does not know.
    private static func exitIfValueIsNoNumber(_ end: any Error, _ program: Program) {
        let message = message(for: end)
        guard let invalid = InvalidValue(message: message) else { return }
        program.exitIfConfigured(message)
        let arguments = program.arguments.arguments
        let sentence = invalid.sentence(arguments) { other in
            do {
                _ = try parseAsRoot(other)
                return nil
            } catch {
                return self.message(for: error)
            }
        }
        guard let sentence else { return }
        let words = CommandPath.find(in: arguments, root: Self.self)?.0.words ?? []
        let command = ([configuration.commandName ?? _commandName] + words).joined(separator: " ")
        Terminal.error("Error: \(sentence)\nSee '\(command) --help' for its options.")
        quit(.validationFailure)
    }

    /// Reports an unknown option first, whatever else is wrong.
    private static func exitIfOptionIsUnknown(_ arguments: [String]) {
        if let (command, rest) = CommandPath.find(in: arguments, root: Self.self),
            OptionNames.unknown(in: Array(rest), definition: command.type._dumpHelp()) == nil
        {
            return
        }
        guard let unknown = OptionNames.unknown(in: arguments, definition: _dumpHelp()) else { return }
        let hint = unknown.like.map { " Did you mean \($0)?" } ?? ""
        Terminal.error(
            "Error: \(unknown.command) has no option \(unknown.option).\(hint)\n"
                + "See '\(unknown.command) --help' for its options."
        )
        quit(.validationFailure)
    }
}

/// Ends the process without a text, as `exit(withError:)` does for a code, but without the parser's description of the
/// command.
private func quit(_ code: ExitCode) -> Never { exit(code.rawValue) }

/// A program with its rules, and the arguments of this process.
///
/// Safe to send: it is made before the task that uses it, and by nothing else afterwards.
private struct Program: @unchecked Sendable {
    let root: any ParsableCommand.Type
    let rules: ConfigurationRules
    let arguments: CommandLineArguments

    /// Reports an error by the variable or the key of a file that has caused it, and ends the process; returns if all
    /// was typed.
    ///
    /// - Parameter message: asked for only if not all was typed.
    func exitIfConfigured(_ message: @autoclosure () -> String) {
        guard let configured = arguments.configured else { return }
        let renamed = OptionOrigins.renamed(message())
        guard let first = renamed.options.first else { return }
        let expectation = ConfigurationCheck(root, rules: rules).expectation(of: first, configured)
        let names = renamed.options.map { "--no-\($0.dropFirst(2))" }.joined(separator: " ")
        let object = renamed.options.count == 1 ? "it" : "them"
        Terminal.error(
            "Error: \(expectation ?? renamed.text)\nCorrect \(object), or add \(names) for a call without \(object)."
        )
        let isFromFile = configured.values[String(first.dropFirst(2))]?.isFromFile == true
        quit(renamed.isAboutOrigin && isFromFile ? ExitCode(78) : .validationFailure)
    }
}
