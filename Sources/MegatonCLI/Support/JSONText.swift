import Foundation

/// JSON for people and scripts.
enum JSONText {
    static func pretty(_ value: some Encodable) throws -> String {
        try text(value, .prettyPrinted)
    }

    /// One line.
    static func line(_ value: some Encodable) throws -> String { try text(value, []) }

    private static func text(_ value: some Encodable, _ formatting: JSONEncoder.OutputFormatting) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = formatting.union([.sortedKeys, .withoutEscapingSlashes])
        encoder.keyEncodingStrategy = .convertToSnakeCase
        return escaped(String(decoding: try encoder.encode(value), as: UTF8.self))
    }

    /// The same JSON, with the scalars that ``Terminal`` never writes as they are (all below U+10000) as `\u202e`: what it
    /// would put in their place is no JSON.
    static func escaped(_ json: String) -> String {
        if Terminal.visible(json) == json { return json }
        return json.unicodeScalars.map { scalar in
            let text = String(scalar)
            return Terminal.visible(text) == text ? text : String(format: "\\u%04x", scalar.value)
        }.joined()
    }
}
