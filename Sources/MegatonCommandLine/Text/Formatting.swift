import Foundation

/// JSON output for users and scripts.
package enum JSONText {
    package static func pretty(_ value: some Encodable) throws -> String {
        try text(value, .prettyPrinted)
    }

    /// JSON in one line.
    package static func line(_ value: some Encodable) throws -> String { try text(value, []) }

    private static func text(_ value: some Encodable, _ formatting: JSONEncoder.OutputFormatting) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = formatting.union([.sortedKeys, .withoutEscapingSlashes])
        encoder.keyEncodingStrategy = .convertToSnakeCase
        return escaped(String(decoding: try encoder.encode(value), as: UTF8.self))
    }

    /// The same JSON, with `\u202e` escapes for the scalars that ``Terminal`` never writes unchanged (all below
    /// U+10000): its own replacements would not be valid JSON.
    package static func escaped(_ json: String) -> String {
        if Terminal.visible(json) == json { return json }
        return json.unicodeScalars.map { scalar in
            let text = String(scalar)
            return Terminal.visible(text) == text ? text : String(format: "\\u%04x", scalar.value)
        }.joined()
    }
}

/// Numbers of things in messages: "1 fetch", "2 fetches".
package enum Counted {
    package static func files(_ count: Int) -> String { of(count, "file") }
    package static func jobs(_ count: Int) -> String { of(count, "job") }
    package static func fetches(_ count: Int) -> String { of(count, "fetch", "fetches") }
    package static func renders(_ count: Int) -> String { of(count, "render") }

    /// - Parameter word: inserted before the noun: "3 more lines".
    package static func lines(_ count: Int, _ word: String = "") -> String {
        of(count, word.isEmpty ? "line" : "\(word) line", word.isEmpty ? "lines" : "\(word) lines")
    }

    /// - Parameters:
    ///   - one: the noun in the singular.
    ///   - many: the noun in the plural; with an s if nil.
    package static func of(_ count: Int, _ one: String, _ many: String? = nil) -> String {
        "\(count) \(count == 1 ? one : many ?? one + "s")"
    }

    /// A number of bytes in the unit that gives it three digits: "1.5 MiB".
    package static func bytes(_ count: Int) -> String {
        let units = ["B", "KiB", "MiB", "GiB", "TiB"]
        var (value, unit) = (Double(count), 0)
        while value >= 1024, unit < units.count - 1 { (value, unit) = (value / 1024, unit + 1) }
        return unit == 0 ? "\(count) B" : String(format: "%.1f %@", value, units[unit])
    }
}
