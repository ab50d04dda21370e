import Foundation

/// One thing that the user asked for.
enum Input: Sendable, Equatable {
    /// A source, and where its outputs go beneath the output directory: path without the rendition's name and ending.
    case source(url: String, place: String)
    /// A line of a `.jsonl`: a job of its own, and where it stands.
    case job(line: Data, place: LinePlace)
    /// A line that is not accepted, and the reason for its user.
    case refused(line: String, reason: String, place: LinePlace)
}

/// How a file or a URL is called in the output tree.
enum OutputPlace {
    /// - Parameter components: of the input's place in its tree, the file's name last.
    static func of(_ components: [String]) -> String {
        var parts = components.map(shortened)
        guard let file = parts.popLast() else { return "_" }
        let dot = file.lastIndex(of: ".")
        let stem = dot.flatMap { $0 == file.startIndex ? nil : String(file[..<$0]) } ?? file
        return (parts + [stem]).joined(separator: "/")
    }

    /// `<host>/<path>`, with a short hash where a query tells it from others.
    static func of(_ url: URL) -> String {
        let path = FileNames.components(of: url)
        let port = url.port.map { "_\($0)" } ?? ""
        let place = of([(url.host(percentEncoded: false) ?? "_") + port] + (path.isEmpty ? ["index"] : path))
        return url.query() == nil ? place : "\(place)-\(hash(url.absoluteString))"
    }

    /// 8 hex digits: short, and enough to tell a handful of namesakes apart.
    static func hash(_ text: String) -> String { String(FileNames.hash(text).prefix(8)) }

    private static func shortened(_ component: String) -> String { FileNames.plain(component) }
}
