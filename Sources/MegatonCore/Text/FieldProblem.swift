internal import Foundation

/// An invalid field of a job or rendition: which field, its value, and the allowed values.
///
/// JSON decoding throws it as the underlying error of a `DecodingError`, so that messages do not depend on the wording
/// of a decoder.
package struct FieldProblem: Error, Sendable, Equatable, CustomStringConvertible {
    /// Path of the field, e.g. `renditions[0].format`; empty for the whole value.
    package var path: String
    /// The rest of the sentence, e.g. `is "jpgg"; allowed are jpeg (also jpg), png`.
    package var problem: String

    package init(_ path: String, _ problem: String) {
        self.path = path
        self.problem = problem
    }

    package var description: String { path.isEmpty ? problem : "\(path) \(problem)" }

    /// The same problem, with the path of the enclosing field in front.
    package func at(_ outer: String) -> FieldProblem {
        if outer.isEmpty { return self }
        return FieldProblem(path.isEmpty ? outer : "\(outer).\(path)", problem)
    }

    // MARK: - Decoding

    /// The coding path of a decoder in the notation of `path`.
    package static func path(_ keys: [any CodingKey]) -> String {
        let parts = keys.map { $0.intValue.map { "[\($0)]" } ?? ".\(plain($0.stringValue, limit: shown))" }
        return String(parts.joined().drop { $0 == "." })
    }

    /// Returns the error for a `Decodable` to throw.
    package static func error(at keys: [any CodingKey], _ problem: String) -> DecodingError {
        FieldProblem("", problem).error(at: keys)
    }

    /// Returns the error for a `Decodable` to throw, with this field below the decoder's own path.
    package func error(at keys: [any CodingKey]) -> DecodingError {
        let whole = at(Self.path(keys))
        return .dataCorrupted(.init(codingPath: keys, debugDescription: whole.description, underlyingError: whole))
    }

    // MARK: - Messages

    /// The current value of a decoder, formatted for a message.
    package static func value(of decoder: any Decoder) -> String { JSONTree.shown(from: decoder).shown }

    /// Describes a value that is not allowed, with a suggestion of the word that was probably meant.
    static func unknown(_ value: JSONTree, allowed: String, like suggestion: (String) -> String?) -> String {
        var near = ""
        if case .text(let text) = value, let word = suggestion(text) { near = "; did you mean \"\(word)\"?" }
        return "is \(value.shown); allowed are \(allowed)\(near)"
    }

    /// Describes an unknown field, with a suggestion of the name that was probably meant.
    package static func unknownField(_ name: String, known: [String]) -> String {
        let near = Spelling.nearest(to: name, among: known).map { "; did you mean \"\($0)\"?" } ?? ""
        let names = known.sorted().joined(separator: ", ")
        return "unknown field \(quoted(name)); known are \(names)\(near)"
    }

    /// The text with a full stop, unless it ends as a sentence already: a suggestion ends with a question mark.
    package static func sentence(_ text: String) -> String {
        text.last.map { ".?!".contains($0) } == true ? text : text + "."
    }

    /// Maximum number of a value's characters in a message.
    private static let shown = 64
    /// Maximum number of characters searched for secrets.
    private static let searched = 2048

    /// Formats a text for a message: in quotes, short, on one line, URLs without their secrets.
    package static func quoted(_ text: String) -> String {
        if text.utf8.prefix(5).elementsEqual("data:".utf8) { return "\"data:…\"" }
        let start = String(text.prefix(searched))
        var safe = Redaction.text(start)
        if start.utf8.count < text.utf8.count, let host = safe.range(of: "://", options: .backwards),
            !safe[host.upperBound...].contains(where: { "/?#\" ".contains($0) })
        {
            // User and password may extend beyond the part that was searched.
            safe = safe[..<host.upperBound] + "…"
        }
        return "\"\(plain(safe, limit: shown))\""
    }

    /// Escapes characters that are invisible or break the line, and limits the length.
    private static func plain(_ text: String, limit: Int) -> String {
        var result = ""
        for (count, scalar) in text.unicodeScalars.enumerated() {
            if count == limit { return result + "…" }
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned:
                result += "\\u{\(String(scalar.value, radix: 16))}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}

extension KeyedDecodingContainer {
    /// Decodes a field; nil if it is missing or null.
    ///
    /// - Parameter allowed: follows "allowed " in the message, e.g. `are whole numbers from 1 to 100`.
    /// - Throws: `DecodingError` with a sentence that names the field, its value and the allowed values.
    package func read<Value: Decodable>(_ type: Value.Type, _ key: Key, allowed: String) throws -> Value? {
        do {
            return try decodeIfPresent(type, forKey: key)
        } catch {
            // An error of a nested value names its field already. Any other error is about this value, whatever its
            // type: for a number that does not fit, Foundation throws an error of its own.
            if (error as? DecodingError)?.fieldProblem != nil { throw error }
            let value = (try? decode(JSONTree.self, forKey: key))?.shown ?? "not readable"
            throw FieldProblem.error(at: codingPath + [key], "is \(value); allowed \(allowed)")
        }
    }
}

extension DecodingError {
    /// The problem, if Megaton's own decoding code threw the error.
    package var fieldProblem: FieldProblem? {
        guard case .dataCorrupted(let context) = self else { return nil }
        return context.underlyingError as? FieldProblem
    }
}
