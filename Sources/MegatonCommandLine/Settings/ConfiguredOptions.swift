import Configuration
import Foundation
import MegatonCore
import Synchronization

/// A value that comes from a variable or a file.
package struct ConfiguredValue: Equatable, Sendable {
    /// The value as it would be typed; `true` or `false` for a flag.
    package var texts: [String]
    /// The variable, or the path of the file with the key behind a colon.
    package var origin: String
    /// 0 for variables, from 1 for the sections of files. A smaller one wins.
    var rank: Int
    package var isFromFile: Bool { rank > 0 }
}

/// The values that variables and files have for the options of one command.
package struct ConfiguredOptions {
    package let options: CommandOptions
    /// By the long name of the option.
    package private(set) var values: [String: ConfiguredValue] = [:]

    /// - Parameter files: those that rank higher first; checked before.
    /// - Throws: `CLIError` 64 for a variable of a flag that is neither true nor false.
    package init(
        _ options: CommandOptions,
        environment: [String: String],
        files: [ConfigurationFile]
    ) throws(CLIError) {
        self.options = options
        var layers = [Layer()]
        for option in options.options {
            guard let text = environment[option.variable], !text.isEmpty else { continue }
            layers[0].add(option, try Self.texts(ofVariable: text, option), origin: option.variable)
        }
        for file in files {
            // A section ranks above the keys above it, also for options that exclude each other.
            for section in options.sections {
                var layer = Layer()
                for option in options.options {
                    guard let value = file.sections[section]?[option.name] else { continue }
                    let key = section.isEmpty ? option.name : "\(section).\(option.name)"
                    layer.add(option, Self.texts(of: value), origin: "\(file.path):\(key)")
                }
                layers.append(layer)
            }
        }
        values = Self.resolve(options.options, layers)
    }

    /// Variables, or a section of a file, with the values for one command.
    private struct Layer {
        var content: [AbsoluteConfigKey: ConfigValue] = [:]
        var origins: [String: String] = [:]

        mutating func add(_ option: ConfigurableOption, _ texts: [String], origin: String) {
            let content: ConfigContent =
                switch option.kind {
                case .flag: .bool(texts == ["true"])
                case .value: .string(texts.first ?? "")
                case .list: .stringArray(texts)
                }
            let isSecret = texts.contains { Redaction.text($0) != $0 }
            self.content[AbsoluteConfigKey([option.name])] = ConfigValue(content, isSecret: isSecret)
            origins[option.name] = origin
        }
    }

    /// Notes which provider has the value of each key.
    private final class Recorder: AccessReporter {
        private let providers = Mutex<[String: String]>([:])

        func report(_ event: AccessEvent) {
            guard let key = event.metadata.key.components.first else { return }
            let provider = event.providerResults.first { result in
                if case .success(let lookup) = result.result { lookup.value != nil } else { false }
            }
            providers.withLock { $0[key] = provider?.providerName }
        }

        func provider(of key: String) -> String? { providers.withLock { $0[key] } }
    }

    private static func resolve(_ options: [ConfigurableOption], _ layers: [Layer]) -> [String: ConfiguredValue] {
        let recorder = Recorder()
        // Named by their ranks: the paths of files are names that users choose.
        let providers = layers.enumerated().map { InMemoryProvider(name: "\($0.offset)", values: $0.element.content) }
        let reader = ConfigReader(providers: providers, accessReporter: recorder)
        var values: [String: ConfiguredValue] = [:]
        for option in options {
            let key = ConfigKey([option.name])
            let texts: [String]? =
                switch option.kind {
                case .flag: reader.bool(forKey: key).map { [String($0)] }
                case .value: reader.string(forKey: key).map { [$0] }
                case .list: reader.stringArray(forKey: key)
                }
            guard let texts, let provider = recorder.provider(of: option.name),
                let rank = providers.firstIndex(where: { $0.providerName == provider }),
                let origin = layers[rank].origins[option.name]
            else { continue }
            values[option.name] = ConfiguredValue(texts: texts, origin: origin, rank: rank)
        }
        return values
    }

    // MARK: - Values

    private static func texts(of value: SettingValue) -> [String] {
        switch value {
        case .flag(let flag): [String(flag)]
        case .list(let items): items.compactMap(\.argument)
        default: value.argument.map { [$0] } ?? []
        }
    }

    /// - Throws: `CLIError` for a flag that is neither true nor false.
    private static func texts(ofVariable text: String, _ option: ConfigurableOption) throws(CLIError) -> [String] {
        switch option.kind {
        case .value: return [text]
        case .list: return list(text)
        case .flag:
            switch text.lowercased() {
            case "true", "yes", "on", "1": return ["true"]
            case "false", "no", "off", "0": return ["false"]
            default: throw CLIError.usage("\(option.variable) must be true or false, not \(FieldProblem.quoted(text)).")
            }
        }
    }

    /// The values of a repeatable option in its variable: words, or a JSON array of strings if they have spaces.
    static func list(_ text: String) -> [String] {
        if text.first(where: { !$0.isWhitespace }) == "[",
            let items = try? JSONDecoder().decode([String].self, from: Data(text.utf8))
        {
            return items
        }
        return text.split(whereSeparator: \.isWhitespace).map(String.init)
    }

    // MARK: - Beside the command line

    /// Removes the values that the command line replaces, and those that go with a source of a lower rank only.
    ///
    /// - Parameters:
    ///   - typed: names with dashes of the options on the command line.
    ///   - withdrawn: long names of those that are withdrawn there.
    package mutating func apply(typed: Set<String>, withdrawn: Set<String> = [], rules: ConfigurationRules) {
        let given = Set(options.options.filter { !$0.names.isDisjoint(with: typed) }.map(\.name))
        let dependents = withdrawn.reduce(into: Set<String>()) { $0.formUnion(rules.dependents[$1] ?? []) }
        for name in given.union(withdrawn).union(dependents) { values[name] = nil }
        // The command line ranks highest.
        func rank(_ names: Set<String>) -> Int? {
            if !names.isDisjoint(with: given) { return -1 }
            // A flag that is off does not contradict anything.
            return names.filter { values[$0]?.texts != ["false"] || options.option($0)?.kind != .flag }
                .compactMap { values[$0]?.rank }.min()
        }
        func remove(_ names: Set<String>, below best: Int) {
            for name in names { if let value = values[name], value.rank > best { values[name] = nil } }
        }
        for names in rules.together { if let best = rank(names) { remove(names, below: best) } }
        for sets in rules.alternatives {
            guard let best = sets.compactMap({ rank($0) }).min() else { continue }
            for names in sets where rank(names) != best { remove(names, below: best) }
        }
    }

    /// The values as arguments. Each is one word, so that a value may begin with a dash.
    package var arguments: [String] {
        options.options.flatMap { option -> [String] in
            guard let value = values[option.name] else { return [] }
            if option.kind == .flag { return value.texts == ["true"] ? ["--\(option.name)"] : [] }
            return value.texts.map { "--\(option.name)=\($0)" }
        }
    }

    /// The origins of the values that are arguments, by the names of the options with dashes.
    package var origins: [String: String] {
        let used = options.options.filter { $0.kind != .flag || values[$0.name]?.texts == ["true"] }
        let pairs = used.compactMap { option in values[option.name].map { ("--\(option.name)", $0.origin) } }
        return Dictionary(pairs) { first, _ in first }
    }
}
