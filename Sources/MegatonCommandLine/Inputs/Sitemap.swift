import Foundation
import FoundationXML
import MegatonPipeline

/// A sitemap or an index of sitemaps, as sitemaps.org defines them, with Google's extension for images.
struct Sitemap: Equatable {
    /// A URL and the line on which it ends.
    struct Entry: Equatable {
        var url: String
        var line: Int
    }

    /// URLs of images: all `image:loc`, and each page whose URL has the file extension of an image.
    var images: [Entry] = []
    /// URLs of the sitemaps of an index.
    var sitemaps: [Entry] = []

    /// An empty sitemap.
    init() {}

    /// Maximum size of a sitemap after decompression, bytes, by sitemaps.org.
    static let sizeLimit = 50 * 1024 * 1024
    /// Maximum number of sitemaps of an index, by sitemaps.org.
    static let indexLimit = 50_000

    /// The reason why data is no sitemap: the verb and the rest of the sentence.
    struct Failure: Error, Equatable {
        let reason: String
    }

    /// Parses a sitemap, which may be compressed with gzip.
    ///
    /// - Parameter fileExtensions: file extensions of images.
    init(_ data: Data, fileExtensions: Set<String>) throws(Failure) {
        var data = data
        if Gzip.isCompressed(data) {
            do throws(Gzip.Failure) {
                data = try Gzip.decompressed(data, limit: Self.sizeLimit)
            } catch {
                throw switch error {
                case .damaged: Failure(reason: "is damaged: it cannot be decompressed")
                case .tooLarge: Self.tooLarge
                }
            }
        }
        guard data.count <= Self.sizeLimit else { throw Self.tooLarge }
        // UTF-16, in which the next check would find nothing. XML has no zero byte, and sitemaps are UTF-8.
        guard !data.contains(0) else { throw Failure(reason: "is not UTF-8") }
        // Entities of a document can grow without limit, and a sitemap has none.
        guard data.range(of: Data("<!DOCTYPE".utf8)) == nil else {
            throw Failure(reason: "has a document type declaration, which a sitemap has not")
        }
        let parser = XMLParser(data: data)
        let reader = Reader(fileExtensions: fileExtensions)
        parser.shouldResolveExternalEntities = false
        parser.delegate = reader
        let isValid = parser.parse()
        if let failure = reader.failure { throw failure }
        // The parser of Linux can return true for a document that ends early.
        guard isValid, parser.parserError == nil, reader.isWhole else {
            throw Failure(reason: "is not valid XML, line \(parser.lineNumber)")
        }
        self = reader.sitemap
    }

    private static let tooLarge = Failure(reason: "is larger than \(sizeLimit) bytes, the limit of sitemaps")

    /// Collects the URLs of one document.
    private final class Reader: NSObject, XMLParserDelegate {
        private let fileExtensions: Set<String>
        private(set) var sitemap = Sitemap()
        private(set) var failure: Failure?
        /// Whether the document has been read to its end.
        private(set) var isWhole = false
        /// Names of the open elements, without namespace prefixes.
        private var path: [String] = []
        private var text = ""

        /// Maximum number of open elements; a sitemap has four.
        private static let depthLimit = 32
        /// Maximum length of a URL, bytes; longer ones are cut, and fail.
        private static let urlLimit = 16 * 1024

        init(fileExtensions: Set<String>) { self.fileExtensions = fileExtensions }

        private func end(_ parser: XMLParser, _ reason: String) {
            failure = failure ?? Failure(reason: reason)
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
            if path.count == 1 && !["urlset", "sitemapindex"].contains(path[0]) {
                end(parser, "is XML, but not a sitemap: its first element is \(elementName.prefix(64))")
            }
            if path.count > Reader.depthLimit { end(parser, "is not a sitemap: its elements are nested too deeply") }
        }

        func parser(_ parser: XMLParser, foundCharacters string: String) {
            if path.last == "loc" && text.utf8.count < Reader.urlLimit { text += string }
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
            let entry = Entry(url: text.trimmingCharacters(in: .whitespacesAndNewlines), line: parser.lineNumber)
            switch path {
            case ["urlset", "url", "image", "loc"]: sitemap.images.append(entry)
            case ["urlset", "url", "loc"] where isImage(entry.url): sitemap.images.append(entry)
            case ["sitemapindex", "sitemap", "loc"]:
                sitemap.sitemaps.append(entry)
                if sitemap.sitemaps.count > Sitemap.indexLimit {
                    end(parser, "names more than \(Sitemap.indexLimit) sitemaps, the limit of an index")
                }
            default: break
            }
            path.removeLast()
            isWhole = path.isEmpty
            text = ""
        }

        private func isImage(_ text: String) -> Bool {
            URL(string: text).map { fileExtensions.contains($0.pathExtension.lowercased()) } ?? false
        }
    }
}
