package import ArgumentParser
import MegatonCore

/// The commands of a program with their options, which are described when they are first needed: that costs the parser
/// a millisecond or more for each command.
package final class OptionCatalog {
    package private(set) lazy var commands = CommandPath.all(beneath: root).filter { rules.applies($0.words[0]) }
    let rules: ConfigurationRules
    private let root: any ParsableCommand.Type
    private var known: [String: CommandOptions] = [:]

    package init(_ root: any ParsableCommand.Type, rules: ConfigurationRules) {
        self.root = root
        self.rules = rules
    }

    /// - Throws: `CLIError` if the parser describes the command in an unknown form.
    package func options(of command: CommandPath) throws(CLIError) -> CommandOptions {
        if let options = known[command.text] { return options }
        guard let options = CommandOptions(of: command, rules: rules) else {
            throw CLIError.broken("the options of \(command.text) are unknown.")
        }
        known[command.text] = options
        return options
    }

    /// The command that begins the arguments; nil if there is none to which variables and files apply.
    func command(in arguments: [String]) -> (CommandPath, ArraySlice<String>)? {
        guard let (command, rest) = CommandPath.find(in: arguments, root: root), rules.applies(command.words[0]) else {
            return nil
        }
        return (command, rest)
    }

    /// Remarks on variables whose names are similar to those of options, or belong to options that are given on the
    /// command line only. Others may be of scripts and units.
    ///
    /// - Parameter command: a command whose own variables need no look at those of the others.
    /// - Throws: `CLIError` if the options of a command are unknown.
    func misspelledVariables(
        _ environment: [String: String],
        besides command: CommandOptions? = nil
    ) throws(CLIError) -> [String] {
        var known = rules.secretVariables.union(command?.options.map(\.variable) ?? [])
        known.insert(ConfigurationRules.fileVariable)
        func isUnknown(_ name: String) -> Bool {
            name.hasPrefix(ConfigurationRules.prefix) && !known.contains(name) && environment[name] != ""
        }
        guard environment.keys.contains(where: isUnknown) else { return [] }
        var refused: [String: String] = [:]
        for command in commands {
            let options = try options(of: command)
            known.formUnion(options.options.map(\.variable))
            // `MEGATON_VERSION` may be that of a package or an image.
            for name in options.refused.subtracting(ConfigurationRules.fixed.subtracting(["yes"])) {
                refused[ConfigurationRules.variable(of: name)] = name
            }
        }
        // Without what they all begin with: short names would be similar to all others.
        let (prefix, length) = (ConfigurationRules.prefix, ConfigurationRules.prefix.count)
        let words = known.map { String($0.dropFirst(length)) }.sorted()
        return environment.keys.filter(isUnknown).sorted().compactMap { name in
            if let option = refused[name] {
                return "the variable \(name) has no effect: --\(option) can be given on the command line only."
            }
            return Spelling.nearest(to: String(name.dropFirst(length)), among: words).map {
                "the variable \(TextColumns.oneLine(name)) has no effect. Did you mean \(prefix)\($0)?"
            }
        }
    }

    /// Checks the keys of a file, and the kinds of their values.
    ///
    /// - Parameter command: checks the values that apply to it, and all names of sections and of keys above them; nil
    ///   checks all.
    /// - Throws: `CLIError` 78 with the first fault.
    func check(_ file: ConfigurationFile, for command: CommandPath? = nil) throws(CLIError) {
        for (section, values) in file.sections.sorted(by: { $0.key < $1.key }) {
            guard !section.isEmpty else {
                for (key, value) in values.sorted(by: { $0.key < $1.key }) {
                    try checkCommon(key, value, file, command)
                }
                continue
            }
            guard let owner = try commandOfSection(section, isEmpty: values.isEmpty, file),
                command.map({ $0.text == owner.text || rules.inherited[$0.section] == owner.section }) ?? true
            else { continue }
            let options = try options(of: owner)
            for (key, value) in values.sorted(by: { $0.key < $1.key }) {
                guard let option = options.option(key) else { throw unknown(key, in: options, file) }
                try Self.check(value, of: option, at: "\(file.path):\(section).\(key)")
            }
        }
    }

    /// The command of a section; nil for a section above others, as `cache` is in `[cache.purge]`.
    private func commandOfSection(
        _ section: String,
        isEmpty: Bool,
        _ file: ConfigurationFile
    ) throws(CLIError) -> CommandPath? {
        if let owner = commands.first(where: { $0.section == section }) { return owner }
        let beneath = commands.map(\.section).filter { $0.hasPrefix(section + ".") }
        if isEmpty && !beneath.isEmpty { return nil }
        guard beneath.isEmpty else {
            throw ConfigurationFile.invalid(
                "\(file.path): [\(section)] is not one command; its commands are \(Self.list(beneath))."
            )
        }
        let near = Spelling.nearest(to: section, among: commands.map(\.section))
        throw ConfigurationFile.invalid(
            "\(file.path): there is no command for the section [\(TextColumns.oneLine(section))]."
                + (near.map { " Did you mean [\($0)]?" } ?? " See megaton --help for the commands.")
        )
    }

    private static func list(_ sections: [String]) -> String {
        sections.map { "[\($0)]" }.joined(separator: ", ")
    }

    /// Checks a key above all sections, which must be an option of a command.
    private func checkCommon(
        _ key: String,
        _ value: SettingValue,
        _ file: ConfigurationFile,
        _ command: CommandPath?
    ) throws(CLIError) {
        var isKnown = false
        // The command itself comes first, so that the others are described only for keys that it does not have.
        let first = command.map { [$0] } ?? []
        var names: Set<String> = []
        var isRefused = ConfigurationRules.fixed.contains(key)
        for path in first + commands where !isKnown || command == nil {
            let options = try options(of: path)
            names.formUnion(options.options.map(\.name))
            isRefused = isRefused || options.refused.contains(key)
            guard let option = options.option(key) else { continue }
            isKnown = true
            if command == nil || command?.text == path.text {
                try Self.check(value, of: option, at: "\(file.path):\(key)")
            }
        }
        if isKnown { return }
        if isRefused { throw Self.refused(key, file) }
        if commands.contains(where: { $0.words[0] == key }) {
            throw ConfigurationFile.invalid(
                "\(file.path): \(key) must be a section, [\(key)], not \(value.kind)."
            )
        }
        let near = Spelling.nearest(to: key, among: names.sorted()).map { " Did you mean \($0)?" } ?? ""
        throw ConfigurationFile.invalid(
            "\(file.path): no command has an option \(FieldProblem.quoted(key)).\(near)"
        )
    }

    private func unknown(_ key: String, in options: CommandOptions, _ file: ConfigurationFile) -> CLIError {
        if options.refused.contains(key) { return Self.refused(key, file) }
        let near = Spelling.nearest(to: key, among: options.options.map(\.name)).map { " Did you mean \($0)?" }
        return ConfigurationFile.invalid(
            "\(file.path): [\(options.command.section)] has no option \(FieldProblem.quoted(key))."
                + (near ?? " megaton config show \(options.command.text) lists its options.")
        )
    }

    private static func refused(_ key: String, _ file: ConfigurationFile) -> CLIError {
        ConfigurationFile.invalid("\(file.path): \(key) can be given on the command line only; remove it.")
    }

    private static func check(
        _ value: SettingValue,
        of option: ConfigurableOption,
        at place: String
    ) throws(CLIError) {
        let fault: String? =
            switch (option.kind, value) {
            case (.flag, .flag), (.value, .text), (.value, .whole), (.value, .number), (.list, .text), (.list, .whole),
                (.list, .number):
                nil
            case (.list, .list(let items)):
                items.first { $0.argument == nil }.map { "must have strings or numbers only, not \($0.kind)" }
            case (.flag, _): "must be true or false, not \(value.kind)"
            case (.value, _): "must be a string or a number, not \(value.kind)"
            case (.list, _): "must be an array of strings or numbers, not \(value.kind)"
            }
        if let fault { throw ConfigurationFile.invalid("\(place) \(fault).") }
    }
}
