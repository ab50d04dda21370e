package import ArgumentParser
import Foundation
import MegatonCore

/// The arguments of this process with the values of variables and files.
package struct CommandLineArguments {
    /// The arguments for the parser.
    package private(set) var arguments: [String]
    /// The arguments as they were typed, without `--config` and `--no-NAME`, for messages about them.
    package private(set) var typed: [String]
    /// The values from variables and files among `arguments`.
    package private(set) var configured: ConfiguredOptions?
    /// Remarks for the user about files and variables.
    package private(set) var remarks: [String] = []

    /// Arguments that ask for a text, which no invalid file may prevent.
    private static let texts: Set<String> = ["--help", "-h", "--help-hidden", "--version"]
    private static let textPrefixes = ["--experimental-dump-help", "--generate-completion-script", "---completion"]

    /// - Throws: `CLIError` 64 for an invalid variable, 66 for a file that cannot be read, and 78 for an invalid file.
    package init(
        _ all: [String],
        root: any ParsableCommand.Type,
        rules: ConfigurationRules,
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws(CLIError) {
        let (file, rest) = rules.readsFiles ? try Self.withoutFile(all) : (nil, all)
        (typed, arguments) = (rest, rest)
        let visible = rest.prefix { $0 != "--" }
        let asksForText = visible.contains { argument in
            Self.texts.contains(argument) || Self.textPrefixes.contains { argument.hasPrefix($0) }
        }
        if asksForText || rest.first == "help" { return }
        let catalog = OptionCatalog(root, rules: rules)
        guard let (command, own) = catalog.command(in: rest) else {
            // A command about files reads the option itself.
            arguments = all
            return
        }
        let places = ConfigurationFile.places(named: file, environment: environment, system: rules.systemFile)
        let files = rules.readsFiles ? try ConfigurationFile.readAll(places).filter { !$0.isEmpty } : []
        let withdraws = own.prefix { $0 != "--" }.contains { $0.hasPrefix("--no-") }
        // Most calls have neither variables nor files, and the description of the command costs time.
        guard !files.isEmpty || withdraws || Self.mayHaveVariables(environment) else { return }
        for file in files { try catalog.check(file, for: command) }
        let options = try catalog.options(of: command)
        let given = OptionNames.given(in: own, known: options.known, withdrawable: Set(options.options.map(\.name)))
        var configured = try ConfiguredOptions(options, environment: environment, files: files)
        configured.apply(typed: given.names, withdrawn: given.withdrawn, rules: rules)
        typed = command.words + given.arguments
        arguments = command.words + configured.arguments + given.arguments
        self.configured = configured
        remarks = Self.remarks(configured, files) + (try catalog.misspelledVariables(environment, besides: options))
    }

    private static func mayHaveVariables(_ environment: [String: String]) -> Bool {
        environment.contains { name, value in
            name.hasPrefix(ConfigurationRules.prefix) && name != ConfigurationRules.fileVariable && !value.isEmpty
        }
    }

    /// The file of `--config`, which each command takes, and the arguments without it.
    ///
    /// - Throws: `CLIError` if it is given twice or has no value.
    private static func withoutFile(_ all: [String]) throws(CLIError) -> (file: String?, rest: [String]) {
        var (file, rest, left) = (String?.none, [String](), all[...])
        while let argument = left.popFirst() {
            if argument == "--" {
                rest += [argument] + left
                break
            }
            guard argument == "--config" || argument.hasPrefix("--config=") else {
                rest.append(argument)
                continue
            }
            if file != nil { throw CLIError.usage("--config is given twice; one file holds all options.") }
            let value = argument == "--config" ? left.popFirst() : String(argument.dropFirst("--config=".count))
            guard let value, !value.isEmpty else { throw CLIError.usage("--config must name a file.") }
            file = value
        }
        return (file, rest)
    }

    /// Warns of a password that all users can read.
    private static func remarks(_ configured: ConfiguredOptions, _ files: [ConfigurationFile]) -> [String] {
        files.filter(\.isReadableByAll).filter { file in
            configured.values.values.contains { value in
                value.origin.hasPrefix(file.path + ":") && value.texts.contains { SettingText.hasPassword($0) }
            }
        }.map { "the configuration file \($0.path) has a password and is readable by others; run chmod o-r on it." }
    }
}

/// Values as messages and lists show them.
package enum SettingText {
    /// The value without passwords, users and queries of its URLs.
    package static func shown(_ texts: [String]) -> String {
        texts.map { TextColumns.oneLine(Redaction.text(withoutUser($0))) }.joined(separator: " ")
    }

    /// A URL of Redis without its user: a `/` in the password, which should be `%2F`, would end it otherwise.
    private static func withoutUser(_ text: String) -> String {
        guard text.lowercased().hasPrefix("redis"), let start = text.firstRange(of: "://")?.upperBound,
            let end = text[start...].lastIndex(of: "@")
        else { return text }
        return String(text[..<start] + text[text.index(after: end)...])
    }

    /// Whether the user part of a URL is in the text.
    static func hasPassword(_ text: String) -> Bool {
        if withoutUser(text) != text || text.contains("sentinel-password=") { return true }
        guard let start = text.firstRange(of: "://")?.upperBound else { return false }
        return text[start...].prefix { !"/?#".contains($0) }.contains("@")
    }
}
