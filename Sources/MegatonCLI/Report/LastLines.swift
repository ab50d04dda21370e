import Foundation
import MegatonCluster
import MegatonCommandLine

/// The last line of each job in a ledger that several runs have written, such as that of shards: a job that failed at
/// first and is done later counts once.
///
/// A job is known by its id and source: tables may give several sources one id. Lines about a second job of the same id
/// and source, a repetition or a conflict, count each.
struct LastLines {
    /// The fields by which a job is known. An unusual line may have nothing else that can be decoded.
    private struct Line: Decodable {
        struct Failure: Decodable { let code: String }

        let id: String?
        let source: String
        let status: JobOutcome.Status
        let error: Failure?
    }

    private var numbers: [UInt64: Int] = [:]

    /// Maximum number of jobs that are remembered; each line of a further one counts.
    static let limit = 2_000_000

    /// Reads a ledger. Blocks.
    ///
    /// - Throws: `CLIError` if the ledger cannot be read.
    init(of ledger: String) throws {
        var reader = try InputReader.lines(of: ledger)
        var number = 0
        while let text = try reader.nextLine() {
            number += 1
            guard let key = Self.key(Data(text.utf8)) else { continue }
            if numbers[key] != nil || numbers.count < Self.limit { numbers[key] = number }
        }
    }

    /// The key of a line; nil also if it is no outcome.
    private static func key(_ line: Data) -> UInt64? {
        if let outcome = JobOutcome(plainJSON: line) { return key(outcome) }
        guard let line = try? JSONDecoder().decode(Line.self, from: line) else { return nil }
        return key(line.id, line.source, line.status, line.error?.code)
    }

    /// Whether no later line is about the same job.
    ///
    /// - Parameter number: that of the line, from 1.
    func isLast(_ number: Int, _ outcome: JobOutcome) -> Bool {
        guard let key = Self.key(outcome), let last = numbers[key] else { return true }
        // A line that has been added since is counted too.
        return number >= last
    }

    /// 64 bits by which a job is known; nil for a line that is about a job of its own.
    static func key(_ outcome: JobOutcome) -> UInt64? {
        key(outcome.id, outcome.source, outcome.status, outcome.error?.code)
    }

    private static func key(_ id: String?, _ source: String, _ status: JobOutcome.Status, _ code: String?) -> UInt64? {
        guard let id, !id.isEmpty, status != .deduplicated, code != JobOutcome.idConflict else { return nil }
        return OutcomeHistory.identity(of: Data("\(id)\n\(source)".utf8)).low
    }
}
