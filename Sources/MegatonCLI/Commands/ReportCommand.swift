import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import Synchronization

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
            Self.note(try await Self.page(of: path, at: output.map(FileNames.absolutePath)))
        }
    }

    /// Writes the page of a ledger on a thread of its own, as the ledger may be long.
    ///
    /// - Parameter path: the page; beside the ledger if nil.
    /// - Returns: its path.
    /// - Throws: `CLIError` if the ledger cannot be read, or the page cannot be written.
    static func page(of ledger: String, at path: String? = nil) async throws -> String {
        let page = path ?? ReportPage.path(beside: ledger)
        let thread = ThreadPool(name: "megaton-report", count: 1)
        defer { thread.stop() }
        try await thread.run { try ReportPage.write(of: ledger, to: page) }
        return page
    }

    /// Prints the path of a page.
    static func note(_ page: String) { Terminal.note("megaton: the report is \(page)") }
}

/// The page of `--report`, written while the helpers of a run end: its ledger has all lines once the batch has ended.
final class ReportTask: Sendable {
    private let writing = Mutex<(ledger: String, task: Task<String, any Error>)?>(nil)

    /// Begins to write the page of a ledger.
    func begin(_ ledger: String) {
        // Unstructured, as the helpers end in calls above this one. `page(of:)` waits for it, or `end()` if another
        // error comes first.
        let task = Task { try await ReportCommand.page(of: ledger) }
        writing.withLock { $0 = (ledger, task) }
    }

    /// Waits for the end of the writing, if it has begun: the process must not end amid it.
    func end() async { _ = await writing.withLock({ $0?.task })?.result }

    /// The path of the page: that which is being written, or else one that is written now.
    ///
    /// - Throws: `CLIError` if the ledger cannot be read, or the page cannot be written.
    func page(of ledger: String) async throws -> String {
        if let begun = writing.withLock({ $0 }), begun.ledger == ledger { return try await begun.task.value }
        return try await ReportCommand.page(of: ledger)
    }
}
