import Foundation

/// Format of a list of inputs.
package enum ListFormat: Sendable, Equatable {
    /// URLs and paths, one on each line.
    case sources
    /// Names with a zero byte after each, as of `find -print0`.
    case names
    /// One job on each line.
    case jobs
    /// A ledger of an earlier run, whose failed jobs are repeated.
    case ledger
    /// A header and rows of fields, of which one is a source.
    case table(TableFormat)
    /// A sitemap of sitemaps.org, perhaps compressed with gzip.
    case sitemap

    /// Delimiters of a table.
    package enum TableFormat: Sendable, Equatable {
        /// Commas, or semicolons if the header has no comma.
        case csv
        case tsv
    }

    /// The values of `--input-format`.
    package static let words = ["csv", "tsv", "txt", "jsonl", "sitemap"]

    /// The format of a file extension and of a value of `--input-format`; nil for any other word.
    package init?(word: String) {
        switch word.lowercased() {
        case "txt": self = .sources
        case "jsonl": self = .jobs
        case "csv": self = .table(.csv)
        case "tsv": self = .table(.tsv)
        case "sitemap", "xml": self = .sitemap
        default: return nil
        }
    }

    package var isTable: Bool {
        if case .table = self { true } else { false }
    }

    /// Name in messages, with an article.
    var description: String {
        switch self {
        case .sources, .names: "a list of URLs and paths"
        case .jobs: "a list of jobs"
        case .ledger: "a ledger"
        case .table(.csv): "a CSV"
        case .table(.tsv): "a TSV"
        case .sitemap: "a sitemap"
        }
    }
}
