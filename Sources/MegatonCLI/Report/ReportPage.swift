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
        let otherFailures: Int
        let otherHosts: Int
        let slowest: [LedgerReport.SlowJob]
        let omitted: Int
        let items: [LedgerReport.Item]
    }

    /// A page of this program has it near its beginning: no other file is replaced.
    private static let mark = #"<meta name="generator" content="megaton report">"#
    /// Follows the mark, with the name of the ledger, percent-encoded, in front of ``ledgerEnd``.
    private static let ledgerStart = #"<meta name="megaton-ledger" content=""#
    private static let ledgerEnd = "\">"
    /// Bytes in which the marks are looked for: an encoded name has at most 765.
    private static let markedSize = 4096
    private static let placeholder = "@CONTENT@"

    /// Path of the page beside a ledger: report.html, or a name like that of the ledger if report.html is the page of
    /// another one. Blocks.
    static func path(beside ledger: String) -> String {
        let ledger = URL(fileURLWithPath: ledger)
        let name = ledger.lastPathComponent
        let stem = name.hasSuffix(".jsonl") ? String(name.dropLast(".jsonl".count)) : name
        let directory = ledger.deletingLastPathComponent()
        let paths = ["report.html", "\(stem).html"].map { directory.appendingPathComponent($0).path }
        return paths.first { mayHave(name, $0) } ?? directory.appendingPathComponent("\(name).html").path
    }

    /// Whether there is no page of another ledger at a path. Other files are refused by ``check(_:)``.
    private static func mayHave(_ name: String, _ path: String) -> Bool {
        guard let text = beginning(of: path), text.contains(mark),
            let start = text.range(of: ledgerStart)?.upperBound,
            let end = text.range(of: ledgerEnd, range: start..<text.endIndex)?.lowerBound
        else { return true }
        return text[start..<end] == encoded(name)
    }

    /// Only letters, digits and percent signs: any other could end the attribute.
    private static func encoded(_ name: String) -> String {
        name.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    }

    /// Nil if there is no file that can be read.
    private static func beginning(of path: String) -> String? {
        FileHandle(forReadingAtPath: path).flatMap { file in
            defer { try? file.close() }
            return (try? file.read(upToCount: markedSize)).map { String(decoding: $0, as: UTF8.self) }
        }
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
        if let text = beginning(of: path), text.contains(mark) { return }
        throw CLIError.output(
            "the report would replace \(path), which is not a report of Megaton. Move that file, or write the report "
                + "elsewhere with megaton report LEDGER --output FILE."
        )
    }

    static func data(_ report: LedgerReport, ledger: String) throws -> Data {
        let name = URL(fileURLWithPath: ledger).lastPathComponent
        let content = Content(
            ledger: name,
            totals: report.totals,
            causes: report.topCauses,
            hosts: report.topHosts,
            otherFailures: report.otherFailures,
            otherHosts: report.otherHosts,
            slowest: report.slowest,
            omitted: report.omitted,
            items: report.items
        )
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let json = withoutTags(try encoder.encode(content))
        let page = String(decoding: PackageResources.report_html, as: UTF8.self)
        let parts = page.components(separatedBy: placeholder)
        let start = (parts.first ?? "")
            .replacingOccurrences(of: mark, with: "\(mark)\n\(ledgerStart)\(encoded(name))\(ledgerEnd)")
        return Data(start.utf8) + json + Data(parts.dropFirst().joined().utf8)
    }

    /// The same JSON with each `<` escaped: a text such as </script> must not end the element that has it.
    private static func withoutTags(_ json: Data) -> Data {
        var escaped: [UInt8] = []
        escaped.reserveCapacity(json.count + json.count / 64)
        for byte in json {
            if byte == UInt8(ascii: "<") { escaped += "\\u003c".utf8 } else { escaped.append(byte) }
        }
        return Data(escaped)
    }
}
