import Foundation
import MegatonCluster

/// The texts that are sources: URLs and paths.
extension InputReader {
    package static func isURL(_ text: String) -> Bool {
        guard let colon = text.firstIndex(of: ":") else { return false }
        return ["http", "https", "file", "data", "s3", "ftp"].contains(text[..<colon].lowercased())
    }

    /// Whether a text is a URL, or has the file extension of an image.
    static func isSource(_ text: String) -> Bool {
        isURL(text) || defaultFileExtensions.contains((text as NSString).pathExtension.lowercased())
    }

    static func url(_ text: String) -> Input {
        if OutputTemplate.isDataURL(text) { return .source(url: text, path: "data-\(OutputPath.hash(text))") }
        guard let url = URL(string: text) else {
            // The worker reports its fault in the line of the ledger.
            return .source(url: text, path: OutputPath.hash(text))
        }
        switch url.scheme?.lowercased() {
        case "file":
            return .source(url: text, path: OutputPath.of(OutputTemplate.components(of: url)))
        default: return .source(url: text, path: OutputPath.of(url))
        }
    }

    static func file(_ path: String, components: [String]) -> Input {
        .source(url: FileNames.fileURL(path), path: OutputPath.of(components))
    }

    /// The host of a text that is probably a URL without its scheme: `//host/a.jpg`, `www.host.org/a.jpg`.
    static func hostWithoutScheme(_ text: String) -> String? {
        let rest: Substring
        if text.hasPrefix("//") {
            rest = text.dropFirst(2)
        } else if text.prefix(4).lowercased() == "www." {
            rest = text[...]
        } else {
            return nil
        }
        guard let slash = rest.firstIndex(of: "/"), rest.first != "." else { return nil }
        let host = rest[..<slash]
        let isHost = host.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "-.:".contains($0)) }
        return isHost && host.contains(".") ? String(host) : nil
    }

    /// A sentence about the scheme that a text probably lacks, with a space in front; empty if it lacks none.
    static func schemeAdvice(_ text: String) -> String {
        hostWithoutScheme(text).map { " A URL begins with its scheme: https://\($0)/…" } ?? ""
    }
}
