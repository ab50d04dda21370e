import ArgumentParser
import MegatonPipeline

/// Finds options that a command does not have. The parser checks values first, and would answer `-z` with a message
/// about a missing output.
package enum OptionNames {
    /// The first argument that looks like an option and is unknown, the name of its command, and the text that probably
    /// replaces it; nil if there is none.
    ///
    /// - Parameter definition: JSON of the whole tool.
    package static func unknown(in arguments: [String], definition: String) -> (
        option: String, command: String, like: String?
    )? {
        guard let tool = CommandDefinition(json: definition) else { return nil }
        var (command, path, rest) = (tool, [tool.commandName], arguments[...])
        while let name = rest.first, let next = command.subcommands?.first(where: { $0.commandName == name }) {
            (command, rest) = (next, rest.dropFirst())
            path.append(name)
        }
        // The options of the program itself may follow the name of a command.
        let known = command.options.merging(tool.options) { own, _ in own }
        while let argument = rest.popFirst(), argument != "--" {
            guard argument.hasPrefix("-"), argument.count > 1 else { continue }
            let name = String(argument.prefix { $0 != "=" })
            if let takesValue = known[name] ?? joined(argument, known) {
                if takesValue && name == argument { rest = rest.dropFirst() }
                continue
            }
            if joinedValue(argument, known) || ["--help", "-h", "--version", "--help-hidden"].contains(name) {
                continue
            }
            let like = PeerOptions.replacement(of: name, among: known.keys) ?? closest(to: name, among: known.keys)
            return (name, path.joined(separator: " "), like)
        }
        return nil
    }

    /// Whether one of the arguments begins with a single dash and has several letters, which are options of their own
    /// for the parser.
    package static func haveBundle(_ arguments: [String]) -> Bool {
        arguments.prefix { $0 != "--" }.contains { $0.hasPrefix("-") && !$0.hasPrefix("--") && $0.count > 2 }
    }

    /// The first argument that should be the name of a command and is none; nil if all are known.
    ///
    /// - Parameter definition: JSON of the whole tool.
    package static func unknownCommand(in arguments: [String], definition: String) -> (
        name: String, command: String, known: [String]
    )? {
        guard let tool = CommandDefinition(json: definition) else { return nil }
        var (command, path, rest) = (tool, [tool.commandName], arguments[...])
        while let commands = command.subcommands, !commands.isEmpty {
            guard let name = rest.first, !name.hasPrefix("-"), name != "help" else { return nil }
            guard let next = commands.first(where: { $0.commandName == name }) else {
                let known = commands.map(\.commandName).filter { $0 != "help" }
                return (name, path.joined(separator: " "), known)
            }
            (command, rest) = (next, rest.dropFirst())
            path.append(name)
        }
        return nil
    }

    /// The arguments with `--option=-1` in the place of `--option -1`; nil if there is no such pair.
    package static func joiningNegativeValues(_ arguments: [String]) -> [String]? {
        var joined: [String] = []
        for argument in arguments {
            let isNegative = argument.first == "-" && argument.dropFirst().first?.isNumber == true
            if isNegative, let option = joined.last, option.hasPrefix("--"), option.count > 2, !option.contains("=") {
                joined[joined.count - 1] = "\(option)=\(argument)"
            } else {
                joined.append(argument)
            }
        }
        return joined.count < arguments.count ? joined : nil
    }

    /// Options that the arguments of a command have.
    package struct Given {
        /// Their names with dashes, as they were typed: `-qj4` has `-q` and `-j`.
        package var names: Set<String> = []
        /// Long names without dashes of the options that `--no-NAME` withdraws.
        package var withdrawn: Set<String> = []
        /// The arguments without those of `withdrawn`.
        package var arguments: [String] = []
    }

    /// Finds the options in the arguments of a command.
    ///
    /// - Parameters:
    ///   - known: the names of all options with dashes, and whether they take a value.
    ///   - withdrawable: long names, without dashes, of options that `--no-NAME` withdraws.
    package static func given(in arguments: ArraySlice<String>, known: [String: Bool], withdrawable: Set<String>)
        -> Given
    {
        var given = Given()
        var rest = arguments
        while let argument = rest.popFirst() {
            if argument == "--" {
                given.arguments += [argument] + rest
                break
            }
            if argument.hasPrefix("--no-"), known[argument] == nil, withdrawable.contains(String(argument.dropFirst(5)))
            {
                given.withdrawn.insert(String(argument.dropFirst(5)))
                continue
            }
            given.arguments.append(argument)
            let found = names(in: argument, known)
            given.names.formUnion(found.names)
            if found.takesNext, let value = rest.popFirst() { given.arguments.append(value) }
        }
        return given
    }

    /// The options of one argument, and whether the next one is the value of the last.
    private static func names(in argument: String, _ known: [String: Bool]) -> (names: [String], takesNext: Bool) {
        let name = String(argument.prefix { $0 != "=" })
        if let takesValue = known[name] { return ([name], takesValue && name == argument) }
        guard argument.hasPrefix("-"), !argument.hasPrefix("--") else { return ([], false) }
        var names: [String] = []
        for (index, letter) in argument.enumerated().dropFirst() {
            guard let takesValue = known["-\(letter)"] else { break }
            names.append("-\(letter)")
            if takesValue { return (names, index == argument.count - 1) }
        }
        return (names, false)
    }

    /// Flags in one word, such as `-qv`; the last may take a value.
    private static func joined(_ argument: String, _ known: [String: Bool]) -> Bool? {
        guard !argument.hasPrefix("--"), argument.count > 2 else { return nil }
        let letters = argument.dropFirst().map { known["-\($0)"] }
        guard letters.allSatisfy({ $0 != nil }), !letters.dropLast().contains(true) else { return nil }
        return letters.last ?? nil
    }

    /// `-j4`.
    private static func joinedValue(_ argument: String, _ known: [String: Bool]) -> Bool {
        !argument.hasPrefix("--") && known[String(argument.prefix(2))] == true
    }

    /// The known option with the most similar spelling.
    private static func closest(to name: String, among known: some Sequence<String>) -> String? {
        guard name.hasPrefix("--") else { return nil }
        let names = known.filter { $0.hasPrefix("--") }.map { String($0.dropFirst(2)) }.sorted()
        // Of two names that are equally close, the first counts.
        guard let near = Spelling.nearest(to: String(name.dropFirst(2)), among: names + PeerOptions.longWords) else {
            return nil
        }
        return names.contains(near) ? "--\(near)" : PeerOptions.replacement(of: "--\(near)", among: known)
    }
}

/// Bounds of the numbers that options take.
package enum OptionRange {
    /// Checks a number; nil, an option that was not given, is always valid.
    ///
    /// - Parameters:
    ///   - option: its name with the dashes, for the message.
    ///   - unit: follows the bounds in the message, with a space in front.
    /// - Throws: `ValidationError` with the bounds and the value.
    package static func check<Value: Comparable>(
        _ option: String,
        _ value: Value?,
        _ range: ClosedRange<Value>,
        _ unit: String = ""
    ) throws {
        guard let value, !range.contains(value) else { return }
        throw ValidationError(
            "\(option) must be \(text(range.lowerBound)) to \(text(range.upperBound))\(unit), not \(text(value))."
        )
    }

    /// The number without the ".0" of whole ones.
    private static func text(_ value: some Comparable) -> String {
        let text = "\(value)"
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }
}
