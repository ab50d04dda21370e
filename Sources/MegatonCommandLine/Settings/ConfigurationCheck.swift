package import ArgumentParser
import Foundation

/// Checks values of variables and files by the parser and the validation of their command, without running it.
package struct ConfigurationCheck {
    let root: any ParsableCommand.Type
    let catalog: OptionCatalog

    package init(_ root: any ParsableCommand.Type, rules: ConfigurationRules) {
        self.root = root
        catalog = OptionCatalog(root, rules: rules)
    }

    /// Checks a whole file: names, kinds, and the values by each command to which they apply.
    ///
    /// - Throws: `CLIError` 78 with the first fault.
    package func check(_ file: ConfigurationFile) throws(CLIError) {
        try catalog.check(file)
        for values in try configured(by: file) {
            if let fault = fault(of: values) { throw ConfigurationFile.invalid(fault) }
        }
    }

    /// The values that a file has for each command.
    ///
    /// - Throws: `CLIError` if the options of a command are unknown.
    package func configured(by file: ConfigurationFile) throws(CLIError) -> [ConfiguredOptions] {
        var all: [ConfiguredOptions] = []
        for command in catalog.commands {
            let options = try catalog.options(of: command)
            var configured = try ConfiguredOptions(options, environment: [:], files: [file])
            configured.apply(typed: [], rules: catalog.rules)
            all.append(configured)
        }
        return all
    }

    /// The fault that the command finds in the values; nil if there is none.
    func fault(of configured: ConfiguredOptions) -> String? {
        let own = configured.arguments
        if own.isEmpty { return nil }
        let command = configured.options.command
        let (found, usual) = OptionOrigins.checking(configured.origins) {
            (message(command, own), message(command, []))
        }
        guard let message = found, message != usual else { return nil }
        let renamed = OptionOrigins.renamed(message, configured.origins)
        // Other faults are those of a command line that lacks its arguments.
        guard let option = renamed.options.first else { return nil }
        return expectation(of: option, configured) ?? renamed.text
    }

    /// The kind of value that an option takes, for a value that it cannot be; nil if the value is of the right kind.
    package func expectation(of option: String, _ configured: ConfiguredOptions) -> String? {
        guard let value = configured.values[String(option.dropFirst(2))],
            let text = value.texts.first(where: { !accepts($0, option, configured) })
        else { return nil }
        let kind =
            accepts("1.5", option, configured) ? "a number" : accepts("1", option, configured) ? "a whole number" : nil
        return kind.map { "\(value.origin) must be \($0), not \"\(SettingText.shown([text]))\"." }
    }

    private func accepts(_ text: String, _ option: String, _ configured: ConfiguredOptions) -> Bool {
        // The parser converts values before any command looks at them.
        let start = "The value '\(text)' is invalid for '\(option)"
        return message(configured.options.command, ["\(option)=\(text)"])?.hasPrefix(start) != true
    }

    /// The message of the parser or of the command about arguments; nil if they are valid. A command that needs inputs
    /// and outputs gets some, as it would report their absence first.
    private func message(_ command: CommandPath, _ arguments: [String]) -> String? {
        let definition = CommandDefinition(of: command.type)
        let positionals = (definition?.arguments ?? []).filter { $0.kind == "positional" }
        let inputs = positionals.map { _ in "https://example.org/1" }
        let output = definition?.options["--output"] == true && !arguments.contains { $0.hasPrefix("--output=") }
        do {
            _ = try root.parseAsRoot(command.words + arguments + (output ? ["--output=output"] : []) + inputs)
            return nil
        } catch {
            return root.message(for: error)
        }
    }
}
