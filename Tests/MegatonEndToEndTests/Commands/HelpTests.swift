import Foundation
import MegatonCommandLine
import MegatonTestSupport
import Testing

/// The help of commands with many options: examples first, and the options in groups.
@Suite(.timeLimit(.minutes(2))) struct HelpTests {
    /// An option of each group of `run` and `plan`, by the title of the group.
    private static let groupsOfRun = [
        "Inputs and Jobs": "--retry-failed", "Lists": "--url-column", "Renditions": "--background",
        "Presets": "--preset", "Redis": "--redis", "Workers": "--memory", "Access to Sources": "--allow-private",
        "Limits of Sources": "--max-pixels", "Outputs and Processes": "--output",
    ]

    private static let groupsOfSubmit = [
        "Inputs and Jobs": "--retry-failed", "Lists": "--url-column", "Renditions": "--background",
        "Presets": "--preset", "Redis": "--redis", "Inputs That Are Read over the Network": "--allow-private",
        "Options": "--output",
    ]

    private static let groupsOfWorker = [
        "Redis": "--redis", "Files, Cache and Hosts": "--memory", "Access to Sources": "--allow-private",
        "Limits of Sources": "--max-pixels", "Log": "--log-level", "Start and Health": "--health",
        "Options": "--lease",
    ]

    private static let groupsOfCoordinator = [
        "Redis": "--redis", "Log": "--log-level", "Start and Health": "--health", "Webhooks": "--webhook-key",
        "Options": "--window",
    ]

    private static let groupsOfServe = [
        "Redis": "--redis", "Images": "--image-rate", "Access to Sources": "--allow-private",
        "Limits of Sources": "--max-pixels", "Log": "--log-level", "Options": "--tokens",
    ]

    private static let commands = [
        "run": groupsOfRun, "plan": groupsOfRun, "submit": groupsOfSubmit, "worker": groupsOfWorker,
        "coordinator": groupsOfCoordinator, "serve": groupsOfServe,
    ]

    /// The commands that have none beneath them, each with the words that call it.
    private static func leaves(of command: CommandDefinition) -> [[String]] {
        let beneath = (command.subcommands ?? []).filter { $0.commandName != "help" }
        return beneath.flatMap { next in
            let deeper = leaves(of: next)
            return deeper.isEmpty ? [[next.commandName]] : deeper.map { [next.commandName] + $0 }
        }
    }

    private static func text(_ arguments: [String]) async throws -> String {
        let ending = await (try ProgramUnderTest.megaton(arguments)).ending()
        #expect(ending.code == 0, "\(ending.errors)")
        return ending.output
    }

    /// The lines of each section by the title of the section, in capitals.
    private func sections(of help: String) -> [String: [String]] {
        var (sections, title) = ([String: [String]](), "")
        for line in help.split(separator: "\n").map(String.init) {
            if line.hasSuffix(":") && line == line.uppercased() {
                title = String(line.dropLast())
            } else {
                sections[title, default: []].append(line)
            }
        }
        return sections
    }

    @Test func theHelpOfALargeCommandHasGroups() async throws {
        for (name, groups) in Self.commands {
            let help = try await Self.text([name, "--help"])
            let sections = sections(of: help)
            for (title, option) in groups {
                let found = sections[title.uppercased()] ?? []
                let hasOption = found.contains { line in
                    line.hasPrefix("  -") && line.split { " ,".contains($0) }.contains { $0 == option }
                }
                #expect(hasOption, "\(name): \(option) is not beneath \(title): \(sections.keys.sorted())")
            }
        }
    }

    @Test func theHelpOfEachCommandBeginsWithExamples() async throws {
        let definition = try await Self.text(["--experimental-dump-help"])
        let commands = Self.leaves(of: try #require(CommandDefinition(json: definition)))
        #expect(commands.count > 30 && commands.contains(["cache", "purge"]), "\(commands)")
        try await inPairs(commands) { words in
            let name = words.joined(separator: " ")
            let help = try await Self.text(words + ["--help"])
            let lines = help.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
            let start = try #require(lines.firstIndex(of: ""), "\(help)")
            try #require(lines.count > start + 2, "\(help)")
            #expect(lines[start + 1] == "Examples:", "\(name): \(lines[start + 1])")
            #expect(lines[start + 2].hasPrefix("  megaton \(name)"), "\(name): \(lines[start + 2])")
            for example in lines[(start + 2)...].prefix(while: { !$0.isEmpty }) {
                // An example may begin with the command that writes its input, or end with one that reads its output.
                for part in example.split(separator: "|") {
                    let words = part.split(separator: " ").map(String.init)
                    guard words.first == "megaton" else { continue }
                    let unknown = OptionNames.unknown(in: Array(words.dropFirst()), definition: definition)
                    #expect(unknown == nil, "\(example): there is no option \(unknown?.option ?? "")")
                }
            }
        }
    }

    /// Fault: "megaton has no option --generate-completion-script".
    @Test(arguments: [["foo"], ["=foo"], ["foo", "--version"]])
    func anUnknownShellIsAnsweredWithTheKnownOnes(_ words: [String]) async throws {
        let option = "--generate-completion-script"
        let arguments = words[0].hasPrefix("=") ? [option + words[0]] : [option] + words
        let ending = await (try ProgramUnderTest.megaton(arguments)).ending()
        #expect(ending.code == 64 && ending.output.isEmpty, "\(ending.output)")
        #expect(ending.errors == "Error: \(option) must be bash, zsh or fish, not \"foo\".\n", "\(ending.errors)")
    }

    @Test func theHelpOfTheProgramBeginsWithExamples() async throws {
        let help = try await Self.text(["--help"])
        let start = try #require(help.range(of: "\n\n"), "\(help)")
        #expect(help[start.upperBound...].hasPrefix("Examples:\n  megaton run "), "\(help)")
    }
}
