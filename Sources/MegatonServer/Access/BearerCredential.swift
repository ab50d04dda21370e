/// The token in the header `Authorization` of a request (RFC 6750 section 2.1).
enum BearerCredential: Sendable, Hashable {
    /// The request has no such header, or one of another scheme, or no token behind the scheme.
    case absent
    /// The request has more than one such header: proxies and servers may read different ones.
    case ambiguous
    /// The text behind the scheme cannot be a token.
    case malformed
    case token(String)

    private static let scheme = "bearer"
    /// Maximum size of a token that is looked at, bytes: no accepted one is longer.
    private static let maximumSize = TokenFile.tokenSizes.upperBound

    /// Reads the values of all headers `Authorization`.
    ///
    /// The scheme has any case, and one or more spaces follow (RFC 9110 section 11.4). Spaces around the whole value do
    /// not belong to it (section 5.5).
    init(_ values: [String]) {
        guard let value = values.first else {
            self = .absent
            return
        }
        guard values.count == 1 else {
            self = .ambiguous
            return
        }
        let words = Self.trimmed(value[...])
        let scheme = words.prefix { $0 != " " }
        let token = words[scheme.endIndex...].drop { $0 == " " }
        if scheme.lowercased() != Self.scheme || token.isEmpty {
            self = .absent
        } else if token.utf8.count <= Self.maximumSize, Self.isToken(String(token)) {
            self = .token(String(token))
        } else {
            self = .malformed
        }
    }

    /// Whether a text is a `b64token`: letters, digits and `-._~+/`, then any number of `=`.
    static func isToken(_ text: String) -> Bool {
        let body = text.utf8.prefix { $0 != UInt8(ascii: "=") }
        return !body.isEmpty
            && body.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "~"), UInt8(ascii: "+"), UInt8(ascii: "/"): true
                default: TokenFile.isWordByte(byte)
                }
            }
            && text.utf8[body.endIndex...].allSatisfy { $0 == UInt8(ascii: "=") }
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text.drop { $0 == " " || $0 == "\t" }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return text
    }
}
