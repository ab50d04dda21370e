import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// `megaton report`
struct ReportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "report",
        abstract: "Write a page about a ledger: totals, failures, slow jobs, and all images.",
        discussion: """
            Examples:
              megaton report thumbs/megaton-ledger.jsonl
              megaton report spring.jsonl --output spring.html

            The page is one HTML file without links to elsewhere. It names images by their paths from its directory: \
            move it together with them. run and submit write it with --report.
            """
    )

    @Argument(
        help: ArgumentHelp("The ledger of a run or a submission.", valueName: "ledger.jsonl"),
        completion: .file()
    )
    var ledger: String

    @Option(
        name: [.long, .customShort("o")],
        help: ArgumentHelp(
            "The page; by default report.html beside the ledger, or a name like the ledger's if report.html is the "
                + "page of another one.",
            valueName: "file.html"
        ),
        completion: .file()
    )
    var output: String?

    mutating func validate() throws {
        if ledger.isEmpty { throw ValidationError("The ledger is empty; it must name a file.") }
        if output == "-" {
            throw ValidationError("--output - is no file, and the page names images by their paths from its directory.")
        }
        if output?.isEmpty == true { throw ValidationError("--output is empty; it must name a file.") }
    }

    func run() async throws {
        try await reportingFailures {
            let path = FileNames.absolutePath(ledger)
            try RetryLedger(path: path).check("the ledger")
            try await Self.write(path, to: output.map(FileNames.absolutePath))
        }
    }

    /// Writes the page of a ledger on a thread of its own, as the ledger may be long, and reports its path.
    ///
    /// - Parameter path: the page; beside the ledger if nil.
    static func write(_ ledger: String, to path: String? = nil) async throws {
        let page = path ?? ReportPage.path(beside: ledger)
        let thread = ThreadPool(name: "megaton-report", count: 1)
        defer { thread.stop() }
        try await thread.run { try ReportPage.write(of: ledger, to: page) }
        Terminal.note("megaton: the report is \(page)")
    }
}
