package import Foundation

/// First bytes of a response, for messages: as text if they are text, else as hex.
package enum Excerpt {
    /// Maximum number of characters of text.
    static let length = 24
    /// Number of bytes that are examined: half a URL would not be recognized.
    package static let bytes = 256

    package static func of(_ data: Data) -> String {
        // Lossy: a character may be truncated, beyond the part that is shown.
        let decoded = String(decoding: data.prefix(bytes), as: UTF8.self)
        guard decoded.unicodeScalars.prefix(length).allSatisfy(isText) else {
            return data.prefix(12).map { [$0].hexDigits }.joined(separator: " ")
        }
        let text = Redaction.text(decoded)
        let line = withoutQueries(text).split(whereSeparator: \.isNewline).joined(separator: " ")
        return "\"" + line.prefix(length) + "\""
    }

    /// Whether it is neither a control character nor the replacement of an invalid byte.
    private static func isText(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "\n", "\r", "\t": true
        case "\u{FFFD}": false
        default: scalar.properties.generalCategory != .control
        }
    }

    /// Removes queries: an error page may repeat the requested URL with its signature. `<?xml` starts no query.
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

extension String {
    /// The first characters, at most this number.
    ///
    /// A text of as many bytes or fewer is returned as it is: to count the characters of a URL takes longer than most
    /// else that a short job needs.
    package func truncated(to characters: Int) -> String {
        utf8.count <= characters ? self : String(prefix(characters))
    }
}
