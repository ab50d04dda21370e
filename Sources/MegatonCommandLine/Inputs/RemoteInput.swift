package import Foundation
package import MegatonPipeline

/// A part of the inputs that is on the network.
///
/// The reader blocks its thread, and so does not load it itself: its owner does, while the thread is free.
package enum RemoteRequest: Sendable, Equatable {
    /// A page of the keys of a bucket.
    case keys(S3Prefix, after: String?)
    case sitemap(URL)
}

/// The answer to a ``RemoteRequest``.
package enum RemoteAnswer: Sendable {
    case keys(S3Listing.Page)
    case sitemap(RemoteDocument)
}

/// A document that was loaded, or the reason why it was not.
package enum RemoteDocument: Sendable {
    case data(Data)
    case failed(CLIError)
}

/// Keys of a bucket that is an input, of which one page is in memory.
struct PrefixReader {
    let prefix: S3Prefix
    private var keys: ArraySlice<String> = []
    private var token: String?
    private var isLastPage = false
    /// Number of keys that were returned.
    private var number = 0

    /// - Throws: `CLIError` for a text that names no prefix.
    init(_ argument: String) throws {
        do {
            guard let url = URL(string: argument) else {
                throw ImagePipeline.Error(.invalidURL, "\"\(argument)\" is not a URL.")
            }
            prefix = try S3Prefix(url)
        } catch let error as ImagePipeline.Error {
            throw CLIError.usage(error.message)
        }
    }

    /// Whether a text on the command line is a prefix, and not an object.
    static func isPrefix(_ argument: String) -> Bool {
        argument.prefix(5).lowercased() == "s3://" && argument.hasSuffix("/")
    }

    /// The page that must be loaded first; nil if none must.
    var request: RemoteRequest? { keys.isEmpty && !isLastPage ? .keys(prefix, after: token) : nil }

    mutating func receive(_ page: S3Listing.Page) {
        keys = page.keys[...]
        token = page.next
        isLastPage = page.next == nil
    }

    /// The next key; nil at the end of the page.
    mutating func next() -> String? {
        guard let key = keys.popFirst() else { return nil }
        number += 1
        return key
    }

    /// Location of the last key.
    var location: LineLocation { LineLocation(list: prefix.description, number: number, unit: "key") }

    /// Components of a key beneath the prefix.
    func components(of key: String) -> [String] {
        let start = prefix.prefix.utf8
        let rest = key.utf8.starts(with: start) ? key.utf8.dropFirst(start.count) : key.utf8[...]
        return rest.split(separator: UInt8(ascii: "/")).map { String(decoding: $0, as: UTF8.self) }
    }
}
