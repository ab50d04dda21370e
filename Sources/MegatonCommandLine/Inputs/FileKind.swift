import Foundation
import MegatonCore

/// Kind of a file by its first bytes, to explain why it is not the input as which it was named.
///
/// A file of no known kind is left to the worker, which reports its fault.
enum FileKind: Equatable {
    case archive(String)
    case archiveOrWorkbook
    case compressed(String)
    case document(String)
    case html
    case image
    case jsonArray
    case jsonObject
    /// URLs or paths, one on each line.
    case list
    /// Names with a zero byte after each.
    case names
    case parquet
    case sitemap
    case table(ListFormat.TableFormat)
    case utf16
    case xml

    private static let gzip = "compressed with gzip"
    /// Number of first bytes that are examined.
    static let examined = 4096

    private static let signatures: [(bytes: [UInt8], kind: FileKind)] = [
        (Array("%PDF-".utf8), .document("a PDF")),
        ([0x50, 0x4B, 0x03, 0x04], .archiveOrWorkbook),
        ([0x50, 0x4B, 0x05, 0x06], .archive("a ZIP archive")),
        (Array("Rar!".utf8), .archive("a RAR archive")),
        ([0x37, 0x7A, 0xBC, 0xAF, 0x27, 0x1C], .archive("a 7z archive")),
        ([0x1F, 0x8B], .compressed(gzip)),
        (Array("BZh".utf8), .compressed("compressed with bzip2")),
        ([0xFD, 0x37, 0x7A, 0x58, 0x5A, 0x00], .compressed("compressed with xz")),
        ([0x28, 0xB5, 0x2F, 0xFD], .compressed("compressed with zstd")),
        ([0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1], .document("an Office document")),
        (Array("PAR1".utf8), .parquet),
        ([0xFF, 0xFE], .utf16), ([0xFE, 0xFF], .utf16),
        ([0xFF, 0xD8, 0xFF], .image), ([0x89, 0x50, 0x4E, 0x47], .image), (Array("GIF8".utf8), .image),
    ]

    /// Nil for a kind that is not known.
    ///
    /// - Parameter bytes: the first bytes of the file, as many as there are up to ``examined``.
    init?(_ bytes: [UInt8]) {
        if let found = Self.signatures.first(where: { bytes.starts(with: $0.bytes) }) {
            self = found.kind
            return
        }
        // POSIX tar has its mark in the first header.
        if bytes.count >= 262, bytes[257..<262].elementsEqual("ustar".utf8) {
            self = .archive("a tar archive")
            return
        }
        if bytes.count >= 12, bytes[..<4].elementsEqual("RIFF".utf8) || bytes[4..<8].elementsEqual("ftyp".utf8) {
            self = .image
            return
        }
        if let zero = bytes.firstIndex(of: 0) {
            guard Self.isName(bytes[..<zero]) else { return nil }
            self = .names
            return
        }
        self.init(text: String(decoding: bytes, as: UTF8.self))
    }

    private init?(text: String) {
        let mark = text.unicodeScalars.first?.value == 0xFEFF
        let text = text.unicodeScalars.dropFirst(mark ? 1 : 0).drop(while: \.properties.isWhitespace)
        let whole = String(String.UnicodeScalarView(text))
        let start = String(whole.prefix(1024))
        let lower = start.lowercased()
        if lower.hasPrefix("<!doctype html") || lower.hasPrefix("<html") {
            self = .html
        } else if lower.hasPrefix("<?xml") || lower.hasPrefix("<urlset") || lower.hasPrefix("<sitemapindex")
            || lower.hasPrefix("<svg")
        {
            let isSitemap = whole.contains("<urlset") || whole.contains("<sitemapindex")
            self = isSitemap ? .sitemap : lower.contains("<svg") ? .image : lower.contains("<html") ? .html : .xml
        } else if start.first == "[" {
            // A path may begin with a bracket, too.
            guard let next = start.dropFirst().first(where: { !$0.isWhitespace }), "{[\"]".contains(next) else {
                return nil
            }
            self = .jsonArray
        } else if start.first == "{" {
            guard let next = start.dropFirst().first(where: { !$0.isWhitespace }), "\"}".contains(next) else {
                return nil
            }
            self = .jsonObject
        } else if let format = Self.table(header: start) {
            self = .table(format)
        } else if Self.beginsWithSource(start) {
            self = .list
        } else {
            return nil
        }
    }

    /// Whether bytes in front of a zero byte are the name of a file, as `find` prints it, and no binary header.
    private static func isName(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard bytes.allSatisfy({ $0 >= 0x20 || $0 == UInt8(ascii: "\n") }) else { return false }
        return bytes.contains(UInt8(ascii: "/")) || InputReader.isSource(String(decoding: bytes, as: UTF8.self))
    }

    /// Whether the first line that is no comment is a URL or the name of an image.
    private static func beginsWithSource(_ text: String) -> Bool {
        let lines = text.split(whereSeparator: \.isNewline).lazy.map { $0.trimmingCharacters(in: .whitespaces) }
        return lines.first { !$0.isEmpty && !$0.hasPrefix("#") }.map(InputReader.isSource) ?? false
    }

    /// A first line with several names, of which one is that of a column of sources. Other lines may be anything.
    private static func table(header: String) -> ListFormat.TableFormat? {
        let line = header.prefix { !$0.isNewline }
        // A line that begins with # is a comment of a list.
        guard line.count < header.count, line.first != "#" else { return nil }
        for (delimiter, format) in [(",", .csv), (";", .csv), ("\t", .tsv)] as [(Character, ListFormat.TableFormat)] {
            let names = line.split(separator: delimiter).map { $0.trimmingCharacters(in: Self.around).lowercased() }
            if names.count > 1 && names.contains(where: TableColumns.knownNames.contains) { return format }
        }
        return nil
    }

    private static let around = CharacterSet(charactersIn: " \"")

    /// Whether a file of this kind is read as the input.
    ///
    /// - Parameter format: the format of the list; nil for an image.
    func isReadable(as format: ListFormat?) -> Bool {
        switch (self, format) {
        case (.sitemap, .sitemap), (.compressed(Self.gzip), .sitemap): true
        case (.image, nil), (.jsonObject, .jobs), (.jsonObject, .ledger), (.table, .table): true
        // Each of its lines is refused with the reason, and has a line in the ledger.
        case (.jsonObject, .sources): true
        // Names may begin with anything.
        case (.table, .names), (.jsonArray, .names), (.jsonObject, .names), (.names, .names): true
        // Its lines are refused with the reason, if they are none of the format.
        case (.list, _): format != nil
        default: false
        }
    }

    /// Kind and remedy, for a message.
    var advice: String {
        switch self {
        case .archive(let name): "\(name): unpack it first, and name the files or the directory"
        case .archiveOrWorkbook:
            "a ZIP archive or an Office document: unpack the archive first, and save the sheet of a workbook as CSV"
        case .compressed(let name): "\(name): unpack it first"
        case .document(let name): "\(name): save its images, or the list that it contains, as files of their own"
        case .html: "a page of HTML: list the URLs of its images in a .txt file"
        case .image: "an image: name it with the file extension of its format, and not as a list"
        case .jsonArray:
            "a JSON array; one object per line is a .jsonl, which jq -c '.[]' makes of it"
        case .jsonObject:
            "JSON: jobs are one object per line in a .jsonl file; --jobs-from reads a file of any name"
        case .list: "a list of URLs or paths: name it .txt, or give --input-format txt"
        case .names:
            "a list of names that end with zero bytes, as of find -print0: give --null (-0), and --input-format txt if "
                + "its name does not end in .txt"
        case .parquet:
            "a table in Parquet, which is not read: convert it to CSV first, as by duckdb -c \"COPY (FROM "
                + "'list.parquet') TO 'list.csv'\""
        case .table(let format):
            "\(ListFormat.table(format).description): name it .\(format == .csv ? "csv" : "tsv"), or give "
                + "--input-format \(format == .csv ? "csv" : "tsv")"
        case .sitemap: "a sitemap: name it .xml, or give --input-format sitemap"
        case .utf16: "a text in UTF-16: save it as UTF-8"
        case .xml: "XML, but not a sitemap: list the URLs of its images in a .txt file"
        }
    }

    /// Kind and remedy of standard input, which has no name that could say more.
    var adviceForStandardInput: String {
        switch self {
        case .image: "an image: save it as a file, and name that"
        case .names: "a list of names that end with zero bytes, as of find -print0: give --null (-0)"
        case .sitemap: "a sitemap: give --input-format sitemap"
        case .table(let format):
            "\(ListFormat.table(format).description): give --input-format \(format == .csv ? "csv" : "tsv")"
        case .xml: "XML: give --input-format sitemap if it is a sitemap; of other XML, list the URLs of its images"
        default: advice
        }
    }
}
