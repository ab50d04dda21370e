package import ArgumentParser
import Foundation

/// Rules for the options of a program that variables and files may set.
package struct ConfigurationRules: Sendable {
    /// Whether files are read; otherwise only variables count.
    package var readsFiles = true
    /// Commands to which variables and files apply, by the first word of their path.
    package var applies: @Sendable (_ command: String) -> Bool = { _ in true }
    /// Options that are given on the command line only, by the path of their command; "" is for all commands.
    package var commandLineOnly: [String: Set<String>] = [:]
    /// Options that all come from the one source that ranks highest: a certificate does not get the key of another.
    package var together: [Set<String>] = []
    /// Options that exclude each other: the source that ranks higher decides which of them count.
    package var alternatives: [[Set<String>]] = []
    /// Options that have no effect without another one: `--no-NAME` of that one withdraws them too.
    package var dependents: [String: Set<String>] = [:]
    /// Commands that take the options of another command's section, which ranks below their own.
    package var inherited: [String: String] = [:]
    /// Variables that are for no option: secrets, which no argument may have.
    package var secretVariables: Set<String> = []
    /// The file of the whole system.
    package var systemFile = "/etc/megaton/megaton.toml"

    package init() {}

    /// Options of every program that neither variables nor files set: texts that are asked for, and a confirmation.
    static let fixed: Set<String> = ["config", "help", "version", "yes"]

    /// The beginning of the names of variables.
    static let prefix = "MEGATON_"

    /// The variable that names a file, as `--config` does.
    static let fileVariable = "MEGATON_CONFIG"

    /// The variable of an option.
    package static func variable(of option: String) -> String {
        prefix + option.uppercased().map { $0 == "-" ? "_" : String($0) }.joined()
    }

    /// Empty variables, which count as unset, for a process that is started with all of its options: those that this
    /// process has for the options of the command.
    package static func blankVariables(
        of command: any ParsableCommand.Type,
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> [String: String] {
        let names = (CommandDefinition(of: command)?.arguments ?? []).compactMap(\.longName).map(variable)
        return Dictionary(names.filter { environment[$0] != nil }.map { ($0, "") }) { first, _ in first }
    }
}

/// A command of the program that has no commands beneath it.
package struct CommandPath {
    /// The words behind the name of the program: `cache`, `purge`.
    package let words: [String]
    package let type: any ParsableCommand.Type

    /// The path as a user types it, and as the key of a section has it with dots.
    package var text: String { words.joined(separator: " ") }
    var section: String { words.joined(separator: ".") }

    /// The command that begins the arguments, and those behind its name; nil if it is not named, or has commands
    /// beneath it of which none is named.
    static func find(in arguments: [String], root: any ParsableCommand.Type) -> (CommandPath, ArraySlice<String>)? {
        var (words, type, rest) = ([String](), root, arguments[...])
        while !type.configuration.subcommands.isEmpty {
            guard let word = rest.popFirst(),
                let next = type.configuration.subcommands.first(where: { $0.name == word })
            else { return nil }
            words.append(word)
            type = next
        }
        return words.isEmpty ? nil : (CommandPath(words: words, type: type), rest)
    }

    /// All commands, in the order of the help.
    static func all(beneath root: any ParsableCommand.Type) -> [CommandPath] {
        root.configuration.subcommands.flatMap { type in
            let beneath = all(beneath: type)
            if beneath.isEmpty { return [CommandPath(words: [type.name], type: type)] }
            return beneath.map { CommandPath(words: [type.name] + $0.words, type: $0.type) }
        }
    }
}

extension ParsableCommand {
    fileprivate static var name: String { configuration.commandName ?? _commandName }
}

/// An option that variables and files may set.
package struct ConfigurableOption: Equatable, Sendable {
    package enum Kind: Equatable, Sendable {
        case flag, value, list
    }

    /// The long name without dashes.
    package let name: String
    package let kind: Kind
    package let defaultValue: String?
    /// All names with dashes.
    let names: Set<String>

    package var variable: String { ConfigurationRules.variable(of: name) }
}

/// The options of a command that variables and files may set.
package struct CommandOptions {
    package let command: CommandPath
    package let options: [ConfigurableOption]
    /// Long names of the options that are given on the command line only.
    let refused: Set<String>
    /// All names of options with dashes, and whether they take a value.
    let known: [String: Bool]
    /// The sections of a file with the options of the command, those that rank higher first.
    let sections: [String]

    /// - Returns: nil if the parser describes the command in an unknown form.
    package init?(of command: CommandPath, rules: ConfigurationRules) {
        guard let definition = CommandDefinition(of: command.type) else { return nil }
        let only = ConfigurationRules.fixed.union(rules.commandLineOnly[""] ?? [])
            .union(rules.commandLineOnly[command.text] ?? [])
        var (options, refused) = ([ConfigurableOption](), Set<String>())
        for argument in definition.arguments ?? [] where argument.kind != "positional" {
            guard let name = argument.longName else { continue }
            if only.contains(name) || !argument.shouldDisplay {
                refused.insert(name)
                continue
            }
            options.append(
                ConfigurableOption(
                    name: name,
                    kind: argument.kind == "flag" ? .flag : argument.isRepeating ? .list : .value,
                    defaultValue: argument.defaultValue,
                    names: Set((argument.names ?? []).map(\.text))
                )
            )
        }
        self.command = command
        self.options = options
        self.refused = refused
        known = definition.options
        sections = [command.section] + (rules.inherited[command.section].map { [$0] } ?? []) + [""]
    }

    func option(_ name: String) -> ConfigurableOption? { options.first { $0.name == name } }
}
