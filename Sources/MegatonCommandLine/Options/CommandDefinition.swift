package import ArgumentParser
import Foundation

/// The definition of a command, which ArgumentParser prints for tools that generate manuals.
package struct CommandDefinition: Decodable {
    package struct Argument: Decodable {
        package struct Name: Decodable {
            package let kind: String
            package let name: String

            /// The name with its dashes.
            package var text: String { kind == "long" ? "--\(name)" : "-\(name)" }
        }

        /// `positional`, `option` or `flag`.
        package let kind: String
        package let names: [Name]?
        package let isRepeating: Bool
        package let shouldDisplay: Bool
        package let defaultValue: String?

        /// The first name with two dashes, without them.
        package var longName: String? { names?.first { $0.kind == "long" }?.name }
    }

    package let commandName: String
    package let subcommands: [CommandDefinition]?
    package let arguments: [Argument]?

    private struct Tool: Decodable {
        let command: CommandDefinition
    }

    /// Reads the JSON that `_dumpHelp` returns; nil if it is of another version.
    package init?(json: String) {
        guard let tool = try? JSONDecoder().decode(Tool.self, from: Data(json.utf8)) else { return nil }
        self = tool.command
    }

    /// The definition of one command. That of a whole program takes the parser ten times as long.
    package init?(of command: any ParsableCommand.Type) { self.init(json: command._dumpHelp()) }

    /// Whether each name of an option, with its dashes, takes a value.
    package var options: [String: Bool] {
        let pairs = (arguments ?? []).flatMap { argument in
            (argument.names ?? []).map { ($0.text, argument.kind == "option") }
        }
        return Dictionary(pairs) { first, _ in first }
    }
}
