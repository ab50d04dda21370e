internal import Foundation
internal import FoundationNetworking

/// Header field values that are lists (RFC 9110 section 5.6.1).
package enum HTTPFieldList {
    /// The elements between commas, trimmed, without empty ones. A comma in a quoted string does not separate elements.
    ///
    /// An unclosed quote is an ordinary character: it must not hide the elements after it.
    package static func elements(_ value: String) -> [Substring] {
        let bytes = value.utf8
        var elements: [Substring] = []
        var (start, index) = (bytes.startIndex, bytes.startIndex)
        var mayQuote = true
        while index < bytes.endIndex {
            if bytes[index] == UInt8(ascii: "\""), mayQuote {
                if let closing = end(ofQuoteAt: index, bytes) { index = closing } else { mayQuote = false }
            } else if bytes[index] == UInt8(ascii: ",") {
                elements.append(trimmed(value[start..<index]))
                start = bytes.index(after: index)
            }
            index = bytes.index(after: index)
        }
        elements.append(trimmed(value[start...]))
        return elements.filter { !$0.isEmpty }
    }

    /// Removes optional whitespace (OWS: spaces and tabs) from both ends.
    package static func trimmed(_ text: Substring) -> Substring {
        func isSpace(_ byte: UInt8) -> Bool { byte == 32 || byte == 9 }
        guard let first = text.utf8.firstIndex(where: { !isSpace($0) }),
            let last = text.utf8.lastIndex(where: { !isSpace($0) })
        else { return "" }
        return text[first...last]
    }

    /// Content of a quoted string; nil if the text is not one (RFC 9110 section 5.6.4).
    static func unquoted(_ text: Substring) -> String? {
        let bytes = text.utf8
        guard bytes.first == UInt8(ascii: "\""), bytes.count > 1,
            end(ofQuoteAt: bytes.startIndex, bytes) == bytes.index(before: bytes.endIndex)
        else { return nil }
        var (result, isEscaped): ([UInt8], Bool) = ([], false)
        for byte in bytes.dropFirst().dropLast() {
            isEscaped = !isEscaped && byte == UInt8(ascii: "\\")
            if !isEscaped { result.append(byte) }
        }
        return String(decoding: result, as: UTF8.self)
    }

    /// Whether the text is a token (RFC 9110 section 5.6.2): the name of a field or of a directive.
    static func isToken(_ text: Substring) -> Bool {
        let marks = "!#$%&'*+-.^_`|~".utf8
        return !text.isEmpty
            && text.utf8.allSatisfy { byte in
                (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
                    || marks.contains(byte)
            }
    }

    /// Index of the closing quote.
    private static func end<Bytes: BidirectionalCollection<UInt8>>(
        ofQuoteAt start: Bytes.Index,
        _ bytes: Bytes
    ) -> Bytes.Index? {
        var index = bytes.index(after: start)
        while index < bytes.endIndex {
            if bytes[index] == UInt8(ascii: "\"") { return index }
            if bytes[index] == UInt8(ascii: "\\") {
                bytes.formIndex(after: &index)
                if index == bytes.endIndex { return nil }
            }
            bytes.formIndex(after: &index)
        }
        return nil
    }
}

extension HTTPURLResponse {
    /// Header fields by lower-case name.
    package var lowercasedHeaders: [String: String] {
        var headers: [String: String] = [:]
        for (name, value) in allHeaderFields {
            if let name = name as? String, let value = value as? String { headers[name.lowercased()] = value }
        }
        return headers
    }

    /// Content encoding of the body, truncated to 64 characters; nil if there is none.
    var bodyEncoding: String? {
        let codings = HTTPFieldList.elements(lowercasedHeaders["content-encoding"] ?? "")
            .filter { $0.lowercased() != "identity" }
        return codings.isEmpty ? nil : String(codings.joined(separator: ", ").prefix(64))
    }
}
