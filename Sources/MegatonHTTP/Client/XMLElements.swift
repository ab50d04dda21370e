package import Foundation
internal import FoundationXML

/// Reads XML from servers that are not trusted, element by element: listings of buckets and sitemaps.
///
/// Only UTF-8 without a document type declaration, as entities can grow without limit. A document that ends early is
/// refused, although the parser of Linux may accept it. White space in front of the document, and faults of namespaces,
/// which count for nothing here, are accepted.
package enum XMLElements {
    /// The reason why data is refused.
    package enum Failure: Error, Equatable {
        case notUTF8, documentType, tooDeep
        case invalid(line: Int, reason: String)
        /// A closure has ended the reading, with this reason.
        case ended(String)
    }

    /// Names of the open elements, the outermost first, without namespace prefixes.
    package typealias Path = [String]

    /// Maximum number of open elements.
    private static let depthLimit = 32

    /// Reads a document to its end.
    ///
    /// - Parameters:
    ///   - textLimit: bytes of the text of an element, from which the rest is left out.
    ///   - began: called with each element that begins; a reason ends the reading.
    ///   - ended: called with each element that ends, its text and its line; a reason ends the reading.
    package static func read(
        _ data: Data,
        textLimit: Int,
        began: @escaping (Path) -> String? = { _ in nil },
        ended: @escaping (_ path: Path, _ text: String, _ line: Int) -> String?
    ) throws(Failure) {
        // UTF-16, in which the next check would find nothing, has zero bytes, and XML has none.
        if data.contains(0) { throw .notUTF8 }
        if data.range(of: Data("<!DOCTYPE".utf8)) != nil { throw .documentType }
        let start = startOfDocument(in: data)
        let lines = data[..<start].count { $0 == UInt8(ascii: "\n") }
        let parser = XMLParser(data: start == data.startIndex ? data : Data(data[start...]))
        let delegate = Delegate(textLimit, began) { path, text, line in ended(path, text, line + lines) }
        parser.shouldResolveExternalEntities = false
        parser.delegate = delegate
        let isValid = parser.parse()
        if let failure = delegate.failure { throw failure }
        if let fault = delegate.fault {
            throw .invalid(line: fault.line + lines, reason: reasons[fault.code] ?? "libxml2 has error \(fault.code)")
        }
        // Some versions of the parser return a fault of namespaces, too.
        guard isValid || delegate.hasNamespaceFault, delegate.isWhole else {
            throw .invalid(line: parser.lineNumber + lines, reason: "it ends before its first element does")
        }
    }

    /// The index behind a byte-order mark and the white space after it, which XML does not allow there; the first index
    /// if there is none.
    private static func startOfDocument(in data: Data) -> Data.Index {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        let rest = data.starts(with: mark) ? data.dropFirst(mark.count) : data
        let start = rest.firstIndex { ![0x20, 0x09, 0x0A, 0x0D].contains($0) } ?? rest.endIndex
        return start == rest.startIndex ? data.startIndex : start
    }

    /// Reasons by the codes of libxml2, which are all that Foundation has of its errors.
    private static let reasons: [Int: String] = [
        4: "it does not begin with an element", 5: "its first element has no end, or something follows it",
        9: "it has a control character", 23: "an & in it is not written as &amp;", 26: "it has an unknown entity",
        38: "a < in an attribute is not written as &lt;", 39: "the value of an attribute has no quotes",
        40: "a quote of an attribute has no end", 41: "an attribute has no value", 42: "an attribute is given twice",
        64: "an XML declaration is not at its beginning", 65: "a space is missing between attributes",
        68: "a < or & in it is not written as &lt; or &amp;", 72: "text is in the place of an element",
        73: "a > is missing", 74: "an element has no end", 76: "an element is ended by the name of another one",
        77: "an element has no end",
    ]

    private final class Delegate: NSObject, XMLParserDelegate {
        private let textLimit: Int
        private let began: (Path) -> String?
        private let ended: (Path, String, Int) -> String?
        private(set) var failure: Failure?
        /// The first error of the parser, which goes on behind some.
        private(set) var fault: (code: Int, line: Int)?
        private(set) var hasNamespaceFault = false
        /// Whether the outermost element has ended.
        private(set) var isWhole = false
        private var path: Path = []
        private var text = ""

        init(
            _ textLimit: Int,
            _ began: @escaping (Path) -> String?,
            _ ended: @escaping (Path, String, Int) -> String?
        ) {
            (self.textLimit, self.began, self.ended) = (textLimit, began, ended)
        }

        /// Codes of libxml2 for names and URIs of namespaces.
        private static let namespaces: Set<Int> = [99, 100, 106, 200, 201, 202, 203, 204, 205]

        func parser(_ parser: XMLParser, parseErrorOccurred parseError: any Error) {
            let code = parseError._code
            if Self.namespaces.contains(code) {
                hasNamespaceFault = true
            } else if fault == nil {
                fault = (code, parser.lineNumber)
            }
        }

        private func end(_ parser: XMLParser, _ failure: Failure) {
            self.failure = self.failure ?? failure
            parser.abortParsing()
        }

        func parser(
            _ parser: XMLParser,
            didStartElement elementName: String,
            namespaceURI: String?,
            qualifiedName: String?,
            attributes: [String: String]
        ) {
            path.append(elementName.split(separator: ":").last.map(String.init) ?? elementName)
            text = ""
            isWhole = false
            if path.count > XMLElements.depthLimit { return end(parser, .tooDeep) }
            if let reason = began(path) { end(parser, .ended(reason)) }
        }

        func parser(_ parser: XMLParser, foundCharacters string: String) {
            if text.utf8.count < textLimit { text += string }
        }

        func parser(_ parser: XMLParser, foundCDATA data: Data) {
            self.parser(parser, foundCharacters: String(decoding: data, as: UTF8.self))
        }

        func parser(
            _ parser: XMLParser,
            didEndElement elementName: String,
            namespaceURI: String?,
            qualifiedName: String?
        ) {
            if let reason = ended(path, text, parser.lineNumber) { end(parser, .ended(reason)) }
            path.removeLast()
            isWhole = path.isEmpty
            text = ""
        }
    }
}
