internal import Foundation

/// The first bytes of what came, for people: text where it is text, else hex.
enum Excerpt {
    /// Characters of text.
    static let length = 24
    /// Bytes that are looked at: half a URL would not be known as one.
    static let bytes = 256

    static func of(_ data: Data) -> String {
        let head = data.prefix(length)
        guard head.allSatisfy({ (32..<127).contains($0) || $0 == 10 || $0 == 13 || $0 == 9 }) else {
            return head.prefix(12).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined(separator: " ")
        }
        let text = Redaction.text(String(decoding: data.prefix(bytes), as: UTF8.self))
        let line = withoutQueries(text).split(whereSeparator: \.isNewline).joined(separator: " ")
        return "\"" + line.prefix(length) + "\""
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
