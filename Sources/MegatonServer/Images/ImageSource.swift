internal import MegatonCore

/// The last part of an image URL: the URL of the source, plain or in base64, and perhaps the format of the result.
struct ImageSource: Sendable, Equatable {
    /// Neither empty nor with control characters; whether it may be loaded is for the loader to decide.
    let url: String
    /// The word after `@` or `.`, such as `png`.
    let format: String?

    /// - Parameter segments: The parts of the path after the options.
    init(_ segments: ArraySlice<String>) throws(ImageURLError) {
        switch segments.first {
        case nil:
            throw Self.problem(
                "There is no source after the options; write plain/ and a percent-encoded URL, or the URL in URL-safe "
                    + "base64"
            )
        case "plain" where segments.count > 1: try self.init(plain: segments.dropFirst().joined(separator: "/"))
        case "enc" where segments.count > 1:
            throw Self.problem("Encrypted sources (enc) are not supported by Megaton; allowed are plain and base64")
        case "-":
            throw Self.problem("Chained pipelines (-) are not supported by Megaton; allowed is one list of options")
        case let first? where segments.dropFirst().contains("plain"):
            throw Self.problem(
                "\(FieldProblem.quoted(first)) is no option, as it has no colon, and no source in base64, as plain/ "
                    + "follows; options look like width:300"
            )
        default: try self.init(encoded: segments.joined())
        }
    }

    private init(plain text: String) throws(ImageURLError) {
        let (source, format) = try Self.parts(text, separator: "@", hint: "; write an @ of the URL as %40")
        guard let bytes = PercentEncoding.decode(source) else {
            throw Self.problem("The source has a % without two hex digits; write a % of the URL as %25")
        }
        try self.init(bytes, format)
    }

    private init(encoded text: String) throws(ImageURLError) {
        let hint = "; a source that is not encoded begins with plain/"
        let (source, format) = try Self.parts(text, separator: ".", hint: hint)
        var digits = source[...]
        while digits.last == UInt8(ascii: "=") { digits.removeLast() }
        guard let bytes = Base64URL.decode(digits) else {
            throw Self.problem(
                "The source \(FieldProblem.quoted(String(decoding: source, as: UTF8.self))) is not in URL-safe base64; "
                    + "a source that is not encoded begins with plain/"
            )
        }
        try self.init(bytes, format)
    }

    private init(_ bytes: [UInt8], _ format: String?) throws(ImageURLError) {
        guard let url = String(validating: bytes, as: UTF8.self) else {
            throw Self.problem("The source is not a text in UTF-8")
        }
        if bytes.isEmpty { throw Self.problem("The source is empty") }
        if bytes.contains(where: { $0 < 0x20 || $0 == 0x7F }) {
            throw Self.problem("The source \(FieldProblem.quoted(url)) has control characters")
        }
        self.url = url
        self.format = format
    }

    /// The bytes before the separator, and the word after it unless it is empty.
    private static func parts(
        _ text: String,
        separator: Unicode.Scalar,
        hint: String
    ) throws(ImageURLError) -> ([UInt8], String?) {
        let parts = text.utf8.split(
            separator: UInt8(ascii: separator),
            maxSplits: 2,
            omittingEmptySubsequences: false
        )
        guard let source = parts.first, !source.isEmpty else { throw problem("The source is empty") }
        if parts.count > 2 { throw problem("The source has more than one format (\(separator))\(hint)") }
        let format = parts.count == 2 ? String(Substring(parts[1])) : ""
        return (Array(source), format.isEmpty ? nil : format)
    }

    private static func problem(_ text: String) -> ImageURLError { ImageURLError(.source, text) }
}

/// Percent-encoding of RFC 3986 section 2.1.
enum PercentEncoding {
    /// The bytes; nil if a `%` is not followed by two hex digits. A `+` stands for itself.
    static func decode(_ text: [UInt8]) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var rest = text[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else {
                return nil
            }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        Character(Unicode.Scalar(byte)).hexDigitValue.map { UInt8($0) }
    }
}
