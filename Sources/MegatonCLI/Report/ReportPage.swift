import Foundation
import MegatonCluster
import MegatonCommandLine

/// The page of a ``LedgerReport``: one HTML file that needs nothing else but the images, which it names by their paths.
enum ReportPage {
    /// The data of the page's script.
    private struct Content: Encodable {
        let ledger: String
        let totals: LedgerReport.Totals
        let causes: [FailureCauses.Row]
        let hosts: [LedgerReport.Host]
        let otherHosts: Int
        let slowest: [LedgerReport.SlowJob]
        let omitted: Int
        let items: [LedgerReport.Item]
    }

    /// A page of this program has it near its beginning: no other file is replaced.
    private static let mark = #"<meta name="generator" content="megaton report">"#
    /// Bytes in which the mark is looked for.
    private static let markedSize = 1024
    private static let placeholder = "@CONTENT@"

    /// Path of the page beside a ledger.
    static func path(beside ledger: String) -> String {
        URL(fileURLWithPath: ledger).deletingLastPathComponent().appendingPathComponent("report.html").path
    }

    /// Reads a ledger and writes its page. Blocks.
    ///
    /// - Throws: `CLIError` if the ledger cannot be read, or the page cannot be written or would replace another file.
    static func write(of ledger: String, to path: String) throws {
        try check(path)
        let directory = URL(fileURLWithPath: path).deletingLastPathComponent().path
        var report = LedgerReport(directory: directory)
        try report.read(ledger)
        let data = try data(report, ledger: ledger)
        do {
            // By another name first: a reader never sees half of a page.
            try data.write(to: URL(fileURLWithPath: path), options: .atomic)
        } catch {
            throw CLIError.output("the report \(path) cannot be written: \(CLIError.reason(error)).")
        }
    }

    /// - Throws: `CLIError` if the path is that of a file that is not such a page.
    static func check(_ path: String) throws {
        guard FileManager.default.fileExists(atPath: path) else { return }
        let beginning = FileHandle(forReadingAtPath: path).flatMap { file in
            defer { try? file.close() }
            return try? file.read(upToCount: markedSize)
        }
        if let beginning, String(decoding: beginning, as: UTF8.self).contains(mark) { return }
        throw CLIError.output(
            "the report would replace \(path), which is not a report of Megaton. Move that file, or write the report "
                + "elsewhere with megaton report LEDGER --output FILE."
        )
    }

    static func data(_ report: LedgerReport, ledger: String) throws -> Data {
        let content = Content(
            ledger: URL(fileURLWithPath: ledger).lastPathComponent,
            totals: report.totals,
            causes: report.topCauses,
            hosts: report.topHosts,
            otherHosts: report.otherHosts,
            slowest: report.slowest,
            omitted: report.omitted,
            items: report.items
        )
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // A text such as </script> must not end the element that has it.
        let json = String(decoding: try encoder.encode(content), as: UTF8.self)
            .replacingOccurrences(of: "<", with: "\\u003c")
        let page = String(decoding: PackageResources.report_html, as: UTF8.self)
        let parts = page.components(separatedBy: placeholder)
        return Data((parts.first ?? "").utf8) + Data(json.utf8) + Data(parts.dropFirst().joined().utf8)
    }
}
