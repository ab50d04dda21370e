internal import Foundation

/// A field of a job or of a rendition whose value cannot be used: which field, its value, and what is allowed.
///
/// Readers of JSON throw it as the underlying error of a `DecodingError`, so that a message never depends on the words of
/// a decoder.
public struct FieldProblem: Error, Sendable, Equatable, CustomStringConvertible {
    /// The way to the field, `renditions[0].format`; empty for the whole value.
    public var path: String
    /// The rest of the sentence: `is "jpgg"; allowed are jpeg (also jpg), png`.
    public var problem: String

    public init(_ path: String, _ problem: String) {
        self.path = path
        self.problem = problem
    }

    public var description: String { path.isEmpty ? problem : "\(path) \(problem)" }

    /// The same problem, of a field within another one.
    public func at(_ outer: String) -> FieldProblem {
        if outer.isEmpty { return self }
        return FieldProblem(path.isEmpty ? outer : "\(outer).\(path)", problem)
    }

    // MARK: - Reading

    /// The path of a decoder as people write it.
    public static func path(_ keys: [any CodingKey]) -> String {
        let parts = keys.map { $0.intValue.map { "[\($0)]" } ?? ".\(plain($0.stringValue, limit: shown))" }
        return String(parts.joined().drop { $0 == "." })
    }

    /// The error that a `Decodable` throws.
    public static func error(at keys: [any CodingKey], _ problem: String) -> DecodingError {
        FieldProblem("", problem).error(at: keys)
    }

    /// The error that a `Decodable` throws, with this field beneath the decoder's own path.
    public func error(at keys: [any CodingKey]) -> DecodingError {
        let whole = at(Self.path(keys))
        return .dataCorrupted(.init(codingPath: keys, debugDescription: whole.description, underlyingError: whole))
    }

    // MARK: - Words

    /// The value that a decoder stands at, as a message shows it.
    public static func value(of decoder: any Decoder) -> String { JSONTree.shown(from: decoder).shown }

    /// A value that is none of those allowed, with the word that was probably meant.
    static func unknown(_ value: JSONTree, allowed: String, like suggestion: (String) -> String?) -> String {
        var near = ""
        if case .text(let text) = value, let word = suggestion(text) { near = "; did you mean \"\(word)\"?" }
        return "is \(value.shown); allowed are \(allowed)\(near)"
    }

    /// A field that does not exist.
    public static func unknownField(_ name: String, known: [String]) -> String {
        let near = Spelling.nearest(to: name, among: known).map { "; did you mean \"\($0)\"?" } ?? ""
        let names = known.sorted().joined(separator: ", ")
        return "unknown field \(quoted(name)); known are \(names)\(near)"
    }

    /// Characters of a value that a message shows.
    private static let shown = 64
    /// Characters that are searched for secrets.
    private static let searched = 2048

    /// A text as a message shows it: in quotes, short, on one line, URLs without their secrets.
    public static func quoted(_ text: String) -> String {
        if text.utf8.prefix(5).elementsEqual("data:".utf8) { return "\"data:…\"" }
        let start = String(text.prefix(searched))
        var safe = Redaction.text(start)
        if start.utf8.count < text.utf8.count, let host = safe.range(of: "://", options: .backwards),
            !safe[host.upperBound...].contains(where: { "/?#\" ".contains($0) })
        {
            // The end of the user and password may be in the part that was not read.
            safe = safe[..<host.upperBound] + "…"
        }
        return "\"\(plain(safe, limit: shown))\""
    }

    /// Without characters that are invisible or change the line around them.
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
    /// A field of a type; nil if it is not there, or null.
    ///
    /// - Parameter allowed: follows "allowed " in the message: `is a whole number from 1 to 100`.
    /// - Throws: `DecodingError` with a sentence that names the field, its value and what is allowed.
    public func read<Value: Decodable>(_ type: Value.Type, _ key: Key, allowed: String) throws -> Value? {
        do {
            return try decodeIfPresent(type, forKey: key)
        } catch {
            // A value within it has been named already. All else is this value, whatever the decoder calls it: for a number
            // that does not fit Foundation throws an error of its own.
            if (error as? DecodingError)?.fieldProblem != nil { throw error }
            let value = (try? decode(JSONTree.self, forKey: key))?.shown ?? "not readable"
            throw FieldProblem.error(at: codingPath + [key], "is \(value); allowed \(allowed)")
        }
    }
}

extension DecodingError {
    /// The sentence, if one of our own readers wrote it.
    public var fieldProblem: FieldProblem? {
        guard case .dataCorrupted(let context) = self else { return nil }
        return context.underlyingError as? FieldProblem
    }
}
