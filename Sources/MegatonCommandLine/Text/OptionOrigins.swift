import Synchronization

/// Options of this process that come from a variable or a file, so that messages name that instead of an option that
/// was not typed.
package enum OptionOrigins {
    /// Variable or file key of each option, by its name with the dashes.
    private static let origins = Mutex<[String: String]>([:])

    /// Sets the origins once, before the command runs.
    package static func set(_ all: [String: String]) { origins.withLock { $0 = all } }

    /// The variable (`MEGATON_REDIS`) or the key (`/etc/megaton/megaton.toml:redis`) that an option comes from; nil if
    /// it was typed, and if it has its default.
    ///
    /// - Parameter option: its name with the dashes.
    package static func origin(of option: String) -> String? { origins.withLock { $0[option] } }

    /// Whether an option comes from a variable or a file. Such a value is a default for many commands: a command for
    /// which it has no effect ignores it, and refuses only what was typed for nothing.
    package static func isConfigured(_ option: String) -> Bool { origin(of: option) != nil }

    /// A message with the origins in the place of the options, and the options that were replaced.
    package static func renamed(_ message: String) -> (text: String, options: [String]) {
        renamed(message, origins.withLock { $0 })
    }

    static func renamed(_ message: String, _ origins: [String: String]) -> (text: String, options: [String]) {
        if origins.isEmpty { return (message, []) }
        var (text, options, rest) = ("", [String](), message[...])
        while let start = rest.firstRange(of: "--")?.lowerBound {
            let isWord = start > rest.startIndex && isPart(rest[rest.index(before: start)])
            text += rest[..<start]
            let name = rest[start...].prefix(while: isPart)
            if !isWord, let origin = origins[String(name)] {
                text += origin
                if !options.contains(String(name)) { options.append(String(name)) }
            } else {
                text += name
            }
            rest = rest[name.endIndex...]
        }
        return (text + rest, options)
    }

    private static func isPart(_ character: Character) -> Bool {
        character.isASCII && (character.isLetter || character.isNumber || character == "-")
    }
}
