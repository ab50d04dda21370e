import Foundation
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

    /// Whether a URL has a name that is usual for sitemaps, in any case: `sitemap….xml`, `…sitemap.xml` or
    /// `…sitemap_index.xml`, perhaps with `.gz` behind it. Other XML by URL may be anything, such as an SVG.
    static func isUsualName(of url: URL) -> Bool {
        let path = url.path(percentEncoded: false).lowercased()
        let file = path.split(separator: "/", omittingEmptySubsequences: false).last ?? ""
        let name = file.hasSuffix(".gz") ? file.dropLast(3) : file
        guard name.hasSuffix(".xml") else { return false }
        let stem = name.dropLast(4)
        return stem.hasPrefix("sitemap") || stem.hasSuffix("sitemap") || stem.hasSuffix("sitemap_index")
    }

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
        self.init()
        do throws(XMLElements.Failure) {
            self = try Self.read(data, fileExtensions)
        } catch {
            throw switch error {
            case .notUTF8: Failure(reason: "is not UTF-8")
            case .documentType: Failure(reason: "has a document type declaration, which a sitemap has not")
            case .tooDeep: Failure(reason: "is not a sitemap: its elements are nested too deeply")
            case .invalid(let line, let reason): Failure(reason: "is not valid XML, line \(line): \(reason)")
            case .ended(let reason): Failure(reason: reason)
            }
        }
    }

    private static let tooLarge = Failure(reason: "is larger than \(sizeLimit) bytes, the limit of sitemaps")

    /// Maximum length of a URL, bytes; longer ones are cut, and fail.
    private static let urlLimit = 16 * 1024

    private static func read(_ data: Data, _ fileExtensions: Set<String>) throws(XMLElements.Failure) -> Sitemap {
        var sitemap = Sitemap()
        func isImage(_ text: String) -> Bool {
            URL(string: text).map { fileExtensions.contains($0.pathExtension.lowercased()) } ?? false
        }
        try XMLElements.read(
            data,
            textLimit: urlLimit,
            began: { path in
                if path.count > 1 || ["urlset", "sitemapindex"].contains(path[0]) { return nil }
                return "is XML, but not a sitemap: its first element is \(path[0].prefix(64))"
            },
            ended: { path, text, line in
                guard path.last == "loc" else { return nil }
                let entry = Entry(url: text.trimmingCharacters(in: .whitespacesAndNewlines), line: line)
                switch path {
                case ["urlset", "url", "image", "loc"]: sitemap.images.append(entry)
                case ["urlset", "url", "loc"] where isImage(entry.url): sitemap.images.append(entry)
                case ["sitemapindex", "sitemap", "loc"]: sitemap.sitemaps.append(entry)
                default: break
                }
                let isTooLong = sitemap.sitemaps.count > indexLimit
                return isTooLong ? "names more than \(indexLimit) sitemaps, the limit of an index" : nil
            }
        )
        return sitemap
    }
}
