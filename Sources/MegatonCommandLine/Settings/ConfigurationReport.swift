package import ArgumentParser
import Foundation
import MegatonCore

/// The options that variables and files set, for users.
package struct ConfigurationReport: Encodable {
    struct Row: Encodable, Equatable {
        /// The command; nil if the report is about one.
        let command: String?
        let option: String
        /// Without secrets; nil if the option has neither a value nor a default.
        let value: String?
        /// `default`, the name of a variable, or the path of a file with a key behind a colon.
        let origin: String
    }

    /// Paths of the files that were read, those that rank higher first.
    let files: [String]
    let options: [Row]
    /// Remarks about variables that have no effect.
    package let remarks: [String]

    private enum CodingKeys: CodingKey {
        case files, options
    }

    /// - Parameters:
    ///   - file: the file of `--config`.
    ///   - words: the command; if empty, the report has what is set for all of them.
    /// - Throws: `CLIError` 64 for an unknown command, 66 and 78 for a file.
    package init(
        _ root: any ParsableCommand.Type,
        rules: ConfigurationRules,
        file: String? = nil,
        command words: [String],
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws(CLIError) {
        let catalog = OptionCatalog(root, rules: rules)
        let files = try Self.files(named: file, rules: rules, environment: environment)
        for file in files { try catalog.check(file) }
        let commands = try Self.commands(words, catalog)
        var rows: [Row] = []
        for command in commands {
            let options = try catalog.options(of: command)
            var configured = try ConfiguredOptions(options, environment: environment, files: files)
            configured.apply(typed: [], rules: rules)
            for option in options.options {
                let value = configured.values[option.name]
                if words.isEmpty && value == nil { continue }
                rows.append(
                    Row(
                        command: words.isEmpty ? command.text : nil,
                        option: option.name,
                        value: value.map { SettingText.shown($0.texts) }
                            ?? option.defaultValue ?? (option.kind == .flag ? "false" : nil),
                        origin: value?.origin ?? "default"
                    )
                )
            }
        }
        self.files = files.map(\.path)
        options = rows
        remarks = try catalog.misspelledVariables(environment)
    }

    /// The files that apply.
    ///
    /// - Throws: `CLIError` 66 and 78.
    package static func files(
        named file: String?,
        rules: ConfigurationRules,
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws(CLIError) -> [ConfigurationFile] {
        try ConfigurationFile.readAll(
            ConfigurationFile.places(named: file, environment: environment, system: rules.systemFile)
        )
    }

    private static func commands(_ words: [String], _ catalog: OptionCatalog) throws(CLIError) -> [CommandPath] {
        let text = words.joined(separator: " ")
        let found = catalog.commands.filter { words.isEmpty || $0.text == text || $0.text.hasPrefix(text + " ") }
        if words.isEmpty || found.first?.text == text { return found }
        let names = catalog.commands.map(\.text)
        let near = Spelling.nearest(to: text, among: names).map { " Did you mean \($0)?" } ?? ""
        guard found.isEmpty else {
            throw CLIError.usage("\(text) is not one command; name \(found.map(\.text).joined(separator: ", ")).")
        }
        throw CLIError.usage("there is no command \(FieldProblem.quoted(text)) that can be configured.\(near)")
    }

    /// The report as columns.
    package var text: String {
        let shown = files.isEmpty ? ["no configuration file"] : files.map { "file \($0)" }
        let rows = options.map { row in
            [[row.command, row.option].compactMap { $0 }.joined(separator: " "), row.value ?? "-", row.origin]
        }
        // A long value moves only its own origin.
        let widths = (0..<2).map { column in rows.map { min(TextColumns.count($0[column]), 40) }.max() ?? 0 }
        let lines = rows.map { row in
            zip(row, widths).map { text, width in
                text + String(repeating: " ", count: max(0, width - TextColumns.count(text)))
            }.joined(separator: "  ") + "  " + row[2]
        }
        return (shown + lines).joined(separator: "\n")
    }
}
