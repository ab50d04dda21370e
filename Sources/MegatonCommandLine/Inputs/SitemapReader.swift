import Foundation
import MegatonPipeline

/// Reads the images of a sitemap, and those of the sitemaps of an index, of which one at a time is in memory.
///
/// Sitemaps are untrusted, and so name http and https URLs only. An index within an index is not followed.
struct SitemapReader {
    /// The next image, or the reason why there is none.
    enum ReadResult {
        case image(url: String)
        case refused(url: String, reason: String, location: LineLocation)
        /// The rest of a file has not arrived, or ``SitemapReader/request`` must be answered first.
        case nothingYet
        case end
    }

    /// The document that is read next.
    private enum Root {
        case file(DocumentReader)
        case url(URL)
    }

    /// Nil once it has been read.
    private var root: Root?
    private let fileExtensions: Set<String>
    /// Name of the sitemap whose images are read.
    private var name: String
    private var images: ArraySlice<Sitemap.Entry> = []
    /// Name of the index.
    private let indexName: String
    private var sitemaps: ArraySlice<Sitemap.Entry> = []
    /// A sitemap of the index that cannot be read.
    private var refusal: (entry: Sitemap.Entry, reason: String)?

    init(_ document: DocumentReader, fileExtensions: Set<String>) {
        root = .file(document)
        (name, indexName) = (document.name, document.name)
        self.fileExtensions = fileExtensions
    }

    /// - Throws: `CLIError` for a text that is not a URL.
    init(url text: String, fileExtensions: Set<String>) throws {
        guard let url = URL(string: text) else { throw CLIError.usage("\(text) is not a URL.") }
        root = .url(url)
        (name, indexName) = (text, text)
        self.fileExtensions = fileExtensions
    }

    /// Whether a text is an http or https URL.
    static func isRemote(_ text: String) -> Bool {
        ["http://", "https://"].contains { text.prefix($0.count).lowercased() == $0 }
    }

    /// The sitemap that must be loaded next; nil if none must.
    var request: RemoteRequest? {
        switch root {
        case .url(let url)?: return .sitemap(url)
        case .file?: return nil
        case nil:
            guard images.isEmpty, refusal == nil, let next = sitemaps.first, Self.isRemote(next.url) else { return nil }
            return URL(string: next.url).map(RemoteRequest.sitemap)
        }
    }

    /// Takes the answer to ``request``.
    ///
    /// - Throws: `CLIError` if the sitemap that the user named cannot be read. One of an index is refused.
    mutating func receive(_ document: RemoteDocument) throws {
        switch document {
        case .data(let data): try open(data)
        case .failed(let error):
            guard root == nil else { throw error }
            refuse(error.message)
        }
    }

    /// Reads the next image.
    ///
    /// - Parameter milliseconds: how long to wait for bytes.
    /// - Throws: `CLIError` if the sitemap that the user named cannot be read.
    mutating func next(waiting milliseconds: Int32) throws -> ReadResult {
        if case .file(var document)? = root {
            let data = try document.read(waiting: milliseconds)
            root = .file(document)
            guard let data else { return .nothingYet }
            try open(data)
        }
        if let (entry, reason) = refusal {
            refusal = nil
            return .refused(url: entry.url, reason: reason, location: location(entry, in: indexName))
        }
        if let image = images.popFirst() {
            if Self.isRemote(image.url) { return .image(url: image.url) }
            return .refused(url: image.url, reason: Self.notRemote, location: location(image, in: name))
        }
        if request != nil { return .nothingYet }
        guard let sitemap = sitemaps.popFirst() else { return .end }
        return .refused(url: sitemap.url, reason: Self.notRemote, location: location(sitemap, in: indexName))
    }

    private static let notRemote = "a sitemap names http and https URLs only"

    private func location(_ entry: Sitemap.Entry, in list: String) -> LineLocation {
        LineLocation(list: list, number: entry.line)
    }

    private mutating func refuse(_ reason: String) {
        guard let entry = sitemaps.popFirst() else { return }
        refusal = (entry, reason)
    }

    private mutating func open(_ data: Data) throws {
        let found: Sitemap
        do throws(Sitemap.Failure) {
            found = try Sitemap(data, fileExtensions: fileExtensions)
        } catch {
            guard root == nil else { throw CLIError.usage("\(name) \(error.reason).") }
            return refuse("it \(error.reason)")
        }
        if root != nil {
            root = nil
            (images, sitemaps) = (found.images[...], found.sitemaps[...])
        } else if !found.sitemaps.isEmpty {
            refuse("it is an index itself, and an index within an index is not followed")
        } else {
            name = sitemaps.popFirst()?.url ?? name
            images = found.images[...]
        }
    }
}

/// Reads a whole document as it arrives, up to a limit.
struct DocumentReader {
    let name: String
    private let descriptor: Int32
    private var data = Data()

    private static let blockSize = 256 * 1024

    /// - Parameter descriptor: stays open until the process ends, as lists are few.
    init(_ descriptor: Int32, name: String) {
        self.descriptor = descriptor
        self.name = name
    }

    /// The document; nil if its end has not arrived.
    ///
    /// - Parameter milliseconds: how long to wait for bytes.
    /// - Throws: `CLIError` if it cannot be read, or is larger than the limit of sitemaps.
    mutating func read(waiting milliseconds: Int32) throws -> Data? {
        var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        while poll(&request, 1, milliseconds) > 0 {
            var block = [UInt8](repeating: 0, count: Self.blockSize)
            let count = Foundation.read(descriptor, &block, block.count)
            if count < 0 {
                if errno == EINTR || errno == EAGAIN { return nil }
                throw CLIError.usage("\(name) cannot be read: \(String(cString: strerror(errno))).")
            }
            if count == 0 { return data }
            data.append(contentsOf: block.prefix(count))
            guard data.count <= Sitemap.sizeLimit else {
                throw CLIError.usage("\(name) is larger than \(Sitemap.sizeLimit) bytes, the limit of sitemaps.")
            }
        }
        return nil
    }
}
