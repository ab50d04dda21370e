package import Foundation
internal import FoundationXML

/// Reads XML from servers that are not trusted, element by element: listings of buckets and sitemaps.
///
/// Only UTF-8 without a document type declaration, as entities can grow without limit. A document that ends early is
/// refused, although the parser of Linux may accept it.
package enum XMLElements {
    /// The reason why data is refused.
    package enum Failure: Error, Equatable {
        case notUTF8, documentType, tooDeep
        case invalid(line: Int)
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
        let parser = XMLParser(data: data)
        let delegate = Delegate(textLimit, began, ended)
        parser.shouldResolveExternalEntities = false
        parser.delegate = delegate
        let isValid = parser.parse()
        if let failure = delegate.failure { throw failure }
        guard isValid, parser.parserError == nil, delegate.isWhole else { throw .invalid(line: parser.lineNumber) }
    }

    private final class Delegate: NSObject, XMLParserDelegate {
        private let textLimit: Int
        private let began: (Path) -> String?
        private let ended: (Path, String, Int) -> String?
        private(set) var failure: Failure?
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
