import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// Counts of the outcomes of a batch so far.
struct BatchTally {
    private(set) var ended = 0
    private(set) var cancelled = 0
    private(set) var workers: Set<String> = []
    private(set) var failed = 0
    /// Jobs that were not run, as an earlier one with their id or key has failed.
    private(set) var failedDuplicates = 0
    private(set) var causes = FailureCauses()
    /// Jobs that are done although their image is damaged.
    private(set) var damaged = 0
    /// Outcomes that could not be read: another version of the program wrote them.
    private(set) var unreadable = 0
    /// Jobs in a row that failed as `disk_full`, without one that was done in between.
    private(set) var failedByFullDisk = 0
    /// The message of the last of them.
    private var fullDisk = ""

    /// Jobs in a row after which no more are made: each source would be fetched and rendered in vain.
    private static let fullDiskLimit = 100

    /// - Parameter outcome: nil if it could not be read, which is reported at the end.
    mutating func add(_ outcome: OutcomeFields?) {
        ended += 1
        guard let outcome else {
            unreadable += 1
            return
        }
        if let worker = outcome.worker { workers.insert(worker) }
        if outcome.status == .cancelled { cancelled += 1 }
        if outcome.status == .done { failedByFullDisk = 0 }
        if outcome.status == .done, RenderNotes.nameDamage(outcome.notes) { damaged += 1 }
        if JobOutcome.isFailedDuplicate(outcome.status, code: outcome.error?.code), let error = outcome.error {
            failedDuplicates += 1
            causes.add(error, source: outcome.source ?? "")
        }
        if outcome.status == .failed, let error = outcome.error {
            failed += 1
            causes.add(error, source: outcome.source ?? "")
            if error.code == ImagePipeline.Error.Code.diskFull.rawValue {
                failedByFullDisk += 1
                fullDisk = error.message
            }
        }
    }

    /// - Throws: `CLIError` if a disk is full, and stays so.
    func checkDisk() throws {
        guard failedByFullDisk >= Self.fullDiskLimit else { return }
        throw CLIError.output(
            "\(failedByFullDisk) jobs in a row failed because a disk is full (disk_full): "
                + "\(FieldProblem.sentence(fullDisk)) Make room; the same command again makes the missing images."
        )
    }

    /// The causes of failures with their counts, the most frequent first.
    var table: String {
        let unread = unreadable == 0 ? [] : ["  \(Counted.of(unreadable, "outcome")) could not be read"]
        return (causes.rows + unread).joined(separator: "\n")
    }
}
