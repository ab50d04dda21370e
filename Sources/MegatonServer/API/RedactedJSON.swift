internal import Foundation
internal import MegatonCore

/// JSON without the secrets of the URLs in its texts, for tokens that do not have the scope `admin`: all other bytes
/// stay as they are.
///
/// A text that is JSON itself, as the job of a dead letter, is redacted as JSON: its slashes may be escaped. It need
/// not be valid.
enum RedactedJSON {
    /// Maximum depth of JSON in texts of JSON; deeper texts are redacted as plain ones.
    private static let maximumDepth = 3
    private static let quote = UInt8(ascii: "\"")
    private static let escape = UInt8(ascii: "\\")

    static func data(_ json: Data) -> Data { data(json, depth: 0) }

    private static func data(_ json: Data, depth: Int) -> Data {
        guard json.contains(where: isSuspicious) else { return json }
        var (result, rest) = (Data(capacity: json.count), json)
        while let start = rest.firstIndex(of: quote) {
            result.append(rest[..<start])
            var end = start + 1
            while end < rest.endIndex, rest[end] != quote { end += rest[end] == escape ? 2 : 1 }
            let next = min(end + 1, rest.endIndex)
            result.append(literal(Data(rest[start..<next]), depth: depth))
            rest = rest[next...]
        }
        result.append(rest)
        return result
    }

    /// Whether a byte is one of those of which a text with a secret has at least one.
    private static func isSuspicious(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "@"), UInt8(ascii: "?"), UInt8(ascii: "#"), UInt8(ascii: "&"), UInt8(ascii: ";"), escape: true
        default: false
        }
    }

    /// - Parameter literal: a text with its quotation marks.
    private static func literal(_ literal: Data, depth: Int) -> Data {
        guard literal.contains(where: isSuspicious) else { return literal }
        guard let text = try? JSONDecoder().decode(String.self, from: literal) else {
            // The rest of a damaged text.
            let plain = String(decoding: literal, as: UTF8.self).replacingOccurrences(of: "\\/", with: "/")
            return Data(Redaction.secrets(in: plain).utf8)
        }
        let redacted = redact(text, depth: depth)
        guard redacted != text else { return literal }
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        // A text can always be encoded; nothing of it is shown otherwise.
        return (try? encoder.encode(redacted)) ?? Data("\"…\"".utf8)
    }

    private static func redact(_ text: String, depth: Int) -> String {
        let isJSON = text.first { !$0.isWhitespace }.map { "{[".contains($0) } ?? false
        guard isJSON, depth < maximumDepth else { return Redaction.secrets(in: text) }
        return Redaction.secrets(in: String(decoding: data(Data(text.utf8), depth: depth + 1), as: UTF8.self))
    }
}
