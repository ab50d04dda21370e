import Foundation
import MegatonCluster
import MegatonCommandLine

extension BatchRun {
    /// Result of a batch.
    struct Result: Sendable {
        let summary: RunSummary
        let errors: String
        let skipped: Int
        let excluded: Int
        /// Jobs that a retry left out of its ledger.
        let notRetried: RetryLedger.NotRetried
        let wasInterrupted: Bool
        /// Whether `--timeout` caused the interruption.
        let ranOutOfTime: Bool
        /// Number of jobs that have not ended and were not reported as cancelled.
        let openJobs: Int
        /// Whether all inputs were read.
        let isReadWhole: Bool
        /// Jobs whose outcomes Redis has lost; nil if there are none.
        var missing: MissingOutcomes?

        /// The exit code.
        var code: Int32 {
            if missing != nil { return 69 }
            let code = summary.exitCode(
                interrupted: wasInterrupted,
                ranOutOfTime: ranOutOfTime,
                leavesOut: !notRetried.isEmpty
            )
            return code == 0 && openJobs > 0 ? 69 : code
        }
    }

    /// Reports jobs that are submitted again.
    static func reportRestored(_ count: Int, _ batch: String) {
        Terminal.error(
            "megaton: Redis has returned to an earlier state and lost \(Counted.jobs(count)) of the batch \(batch), "
                + "which \(count == 1 ? "is" : "are") submitted again."
        )
    }

    /// Reports cancelled jobs that have no outcome.
    ///
    /// - Returns: the number of these jobs.
    func reportUnwritten(_ counters: BatchCounters, _ tally: BatchTally) -> Int {
        let unwritten = max(counters["cancelled"] - tally.cancelled, 0)
        if keepsLedger && unwritten > 0 { Terminal.error("megaton: \(LedgerRemark.unwritten(unwritten))") }
        return unwritten
    }
}
