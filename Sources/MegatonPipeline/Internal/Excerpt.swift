internal import Foundation

/// The first bytes of what came, for people: text where it is text, else hex.
enum Excerpt {
    /// Characters of text.
    static let length = 24
    /// Bytes that are looked at: half a URL would not be known as one.
    static let bytes = 256

    static func of(_ data: Data) -> String {
        // Lossy: a character may be cut off behind what is shown.
        let decoded = String(decoding: data.prefix(bytes), as: UTF8.self)
        guard decoded.unicodeScalars.prefix(length).allSatisfy(isText) else {
            return data.prefix(12).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined(separator: " ")
        }
        let text = Redaction.text(decoded)
        let line = withoutQueries(text).split(whereSeparator: \.isNewline).joined(separator: " ")
        return "\"" + line.prefix(length) + "\""
    }

    /// Other than what stands for bytes that are none, and controls.
    private static func isText(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "\n", "\r", "\t": true
        case "\u{FFFD}": false
        default: scalar.properties.generalCategory != .control
        }
    }

    /// An error page may repeat what it was asked for, with the signature in it. `<?xml` is no question.
    private static func withoutQueries(_ text: String) -> String {
        var result = ""
        var isInQuery = false
        for character in text {
            if character.isWhitespace || "\"'<>`".contains(character) { isInQuery = false }
            if isInQuery { continue }
            isInQuery = character == "?" && result.last != "<"
            result += isInQuery ? "?…" : String(character)
        }
        return result
    }
}
