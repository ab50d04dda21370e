package import Foundation
package import MegatonCluster

/// One input of a run or a submission.
package enum Input: Sendable, Equatable {
    /// A source, and the path of its outputs in the output directory, without the rendition's name and the extension.
    case source(url: String, path: String)
    /// A row of a CSV or TSV: a source with an id or labels.
    case row(InputRow)
    /// A line of a `.jsonl`: a job of its own, and its location.
    case job(line: Data, location: LineLocation)
    /// A line that is not accepted, and the reason for the user.
    case refused(line: String, reason: String, location: LineLocation)
}

/// A source of a table, with the row's other columns.
package struct InputRow: Sendable, Equatable {
    package let url: String
    /// Path of its outputs, as of ``Input/source(url:path:)``.
    package let path: String
    /// Nil if the id is made by the submitter.
    package let id: String?
    package let labels: Job.Labels?
    package let location: LineLocation
}

/// Path of an input in the output tree.
package enum OutputPath {
    /// - Parameter components: path of the input in its tree; the last component is the file's name.
    package static func of(_ components: [String]) -> String {
        guard let file = components.last else { return "_" }
        return (components.dropLast().map(OutputTemplate.plain) + [OutputTemplate.stem(of: file)])
            .joined(separator: "/")
    }

    /// `<host>/<path>`, with a short hash if there is a query, to distinguish URLs that differ only in it.
    package static func of(_ url: URL) -> String {
        let path = OutputTemplate.components(of: url)
        let port = url.port.map { "_\($0)" } ?? ""
        let result = of([(url.host(percentEncoded: false) ?? "_") + port] + (path.isEmpty ? ["index"] : path))
        return url.query() == nil ? result : "\(result)-\(hash(url.absoluteString))"
    }

    /// 8 hex digits: short, and enough to distinguish a few inputs of the same name.
    package static func hash(_ text: String) -> String { String(OutputTemplate.hash(text).prefix(8)) }
}
