import Foundation
import MegatonCluster

/// The last lines of the jobs of a ledger that were not done then: a job that was repeated has several lines.
struct LastFailures {
    /// Id and source of a job, as 128 bits: jobs of one id and other sources are different ones.
    private struct Key: Hashable {
        let low: UInt64
        let high: UInt64

        /// Nil for an outcome that is about a job of its own: without an id, or with that of another job.
        init?(_ outcome: JobOutcome) {
            guard let id = outcome.id, outcome.error?.code != JobOutcome.idConflict else { return nil }
            (low, high) = OutcomeHistory.identity(of: Data("\(id)\n\(outcome.source)".utf8))
        }
    }

    /// Maximum number of jobs, about 50 bytes of memory each. Each line of a further one counts as its last.
    static let limit = 5_000_000

    private var numbers: [Key: Int] = [:]
    /// Number of the first line whose job was not remembered.
    private var firstUnknown = Int.max

    /// Reads a ledger once.
    ///
    /// - Throws: `CLIError` if it cannot be read.
    init(of path: String, limit: Int = LastFailures.limit) throws {
        var reader = try InputReader.lines(of: path)
        while let line = try reader.nextLine() {
            guard let outcome = RetryLedger.outcome(line), let key = Key(outcome) else { continue }
            let number = reader.location.number
            switch outcome.status {
            case .done: numbers[key] = nil
            // This line says that the job was alive, and another one how it has ended.
            case .deduplicated: break
            case .failed, .cancelled:
                if numbers[key] != nil || numbers.count < limit {
                    numbers[key] = number
                } else {
                    firstUnknown = min(firstUnknown, number)
                }
            }
        }
    }

    /// Whether no later line of the ledger is about the same job.
    func isLast(_ outcome: JobOutcome, at number: Int) -> Bool {
        guard let key = Key(outcome) else { return true }
        return numbers[key].map { $0 == number } ?? (number >= firstUnknown)
    }
}
