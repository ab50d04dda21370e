import Synchronization

/// Options of this process that come from a variable or a file, so that messages name that instead of an option that
/// was not typed.
package enum OptionOrigins {
    /// Variable or file key of each option, by its name with the dashes.
    private static let origins = Mutex<[String: String]>([:])
    /// Those of arguments that are only checked, in the place of those of this process.
    @TaskLocal private static var checked: [String: String]?

    /// Sets the origins once, before the command runs.
    package static func set(_ all: [String: String]) { origins.withLock { $0 = all } }

    /// Runs a check of other arguments, which have these origins.
    static func checking<Value>(_ all: [String: String], _ body: () -> Value) -> Value {
        $checked.withValue(all, operation: body)
    }

    private static var current: [String: String] { checked ?? origins.withLock { $0 } }

    /// The variable (`MEGATON_REDIS`) or the key (`/etc/megaton/megaton.toml:redis`) that an option comes from; nil if
    /// it was typed, and if it has its default.
    ///
    /// - Parameter option: its name with the dashes.
    package static func origin(of option: String) -> String? { current[option] }

    /// Whether an option comes from a variable or a file. Such a value is a default for many commands: a command for
    /// which it has no effect ignores it, and refuses only what was typed for nothing.
    package static func isConfigured(_ option: String) -> Bool { origin(of: option) != nil }

    /// Whether an option, which has a value, was typed and another one was configured. If both contradict each other,
    /// the other one is a default for other commands.
    package static func ranksAbove(_ option: String, _ other: String) -> Bool {
        !isConfigured(option) && isConfigured(other)
    }

    /// A message with the origins in the place of the options.
    package struct Renamed: Equatable {
        package var text = ""
        /// The options that were replaced, with dashes.
        package var options: [String] = []
        /// Whether the first option of the message was: the message is about that one.
        package var isAboutOrigin = false
    }

    package static func renamed(_ message: String) -> Renamed { renamed(message, current) }

    /// - Parameter origins: by the names of the options with the dashes.
    package static func renamed(_ message: String, _ origins: [String: String]) -> Renamed {
        var result = Renamed()
        if origins.isEmpty {
            result.text = message
            return result
        }
        var (isFirst, rest) = (true, message[...])
        while let start = rest.firstRange(of: "--")?.lowerBound {
            let isWord = start > rest.startIndex && isPart(rest[rest.index(before: start)])
            result.text += rest[..<start]
            let name = String(rest[start...].prefix(while: isPart))
            if !isWord, let origin = origins[name] {
                result.text += origin
                if !result.options.contains(name) { result.options.append(name) }
                if isFirst { result.isAboutOrigin = true }
            } else {
                result.text += name
            }
            isFirst = false
            rest = rest[start...].dropFirst(name.count)
        }
        result.text += rest
        return result
    }

    private static func isPart(_ character: Character) -> Bool {
        character.isASCII && (character.isLetter || character.isNumber || character == "-")
    }
}
