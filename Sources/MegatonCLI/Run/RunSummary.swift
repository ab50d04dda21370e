import Foundation
import MegatonCluster
import MegatonCommandLine

/// Result of a batch: the object that `--json` prints.
struct RunSummary: Sendable, Codable, Equatable {
    var batch: String
    var jobs: Int
    var done: Int
    var failed: Int
    var cancelled: Int
    /// Jobs that were pushed while a job with the same id was alive.
    var deduplicated: Int
    /// Those of them whose first job, of the same id or key, has failed; nil if there are none.
    var failedDuplicates: Int?
    var renditions: Int
    var originFetches: Int
    var renders: Int
    var cacheHits: Int
    /// Seconds from the first push to the end of the last job.
    var seconds: Double
    var imagesPerSecond: Double
    var ledger: String?
    /// Number of worker processes that took part.
    var workers: Int
    /// Outputs that only an earlier run had made, and that were deleted; nil without `--delete-orphans`.
    var orphansDeleted: Int?
    /// Those that stay.
    var orphansKept: Int?

    init(batch: String, counters: BatchCounters, tally: BatchTally, seconds: Double, ledger: String?) {
        self.batch = batch
        jobs = max(counters["submitted"], counters["total"])
        done = counters["done"]
        failed = counters["failed"]
        cancelled = counters["cancelled"]
        deduplicated = counters["deduplicated"]
        failedDuplicates = tally.failedDuplicates > 0 ? tally.failedDuplicates : nil
        renditions = counters["renditions"]
        originFetches = counters["origin_fetches"]
        renders = counters["renders"]
        cacheHits = counters["cache_hits"]
        self.seconds = (seconds * 1000).rounded() / 1000
        imagesPerSecond = seconds > 0 ? (Double(counters["done"]) / seconds * 10).rounded() / 10 : 0
        self.ledger = ledger
        workers = tally.workers.count
    }

    /// Counts jobs as failed that the workers have done, and whose results are lost.
    mutating func move(_ lost: Int) {
        done -= lost
        failed += lost
    }

    mutating func add(_ orphans: OrphanDeletion.Counts) {
        orphansDeleted = orphans.deleted
        orphansKept = orphans.left
    }

    /// Number of jobs without an end: a second signal ends a run at once.
    var open: Int { max(0, jobs - done - failed - cancelled - deduplicated) }

    /// One line for readers.
    var line: String {
        let rate = done > 0 ? " (\(String(format: "%.1f", imagesPerSecond)) a second)" : ""
        var parts = ["\(done) of \(jobs) done in \(String(format: "%.1f", seconds)) s\(rate)"]
        if failed > 0 { parts.append("\(failed) failed") }
        if cancelled > 0 { parts.append("\(cancelled) cancelled") }
        if open > 0 { parts.append("\(open) not ended") }
        if deduplicated > 0 { parts.append(Counted.of(deduplicated, "duplicate")) }
        if let failedDuplicates { parts.append("\(failedDuplicates) of a job that has failed") }
        parts.append(
            "\(Counted.fetches(originFetches)), \(Counted.renders(renders)), \(cacheHits) from the cache"
        )
        if let orphansDeleted, orphansDeleted > 0 { parts.append("\(Counted.of(orphansDeleted, "orphan")) deleted") }
        if let orphansKept, orphansKept > 0 { parts.append("\(Counted.of(orphansKept, "orphan")) kept") }
        return parts.joined(separator: "; ")
    }

    /// Exit code: 0 all done · 2 some failed, were cancelled, were duplicates of failed ones or were left out · 75
    /// timed out · 130 interrupted.
    ///
    /// - Parameter leavesOut: whether a retry left jobs of its ledger undone, or directories could not be read.
    func exitCode(interrupted: Bool, ranOutOfTime: Bool = false, leavesOut: Bool = false) -> Int32 {
        if ranOutOfTime { return 75 }
        if interrupted { return 130 }
        return failed + cancelled + (failedDuplicates ?? 0) > 0 || leavesOut ? 2 : 0
    }
}

extension BatchOptions {
    /// Prints the object of `--json`, if it was given.
    ///
    /// - Returns: the error if it was lost, to throw after the messages about the batch; nil if not.
    func printSummary(_ summary: RunSummary) throws -> CLIError? {
        guard json else { return nil }
        let text = try JSONText.pretty(summary)
        do throws(CLIError) {
            try Terminal.output(text)
            return nil
        } catch {
            return .output("\(error.message) The batch has ended: \(summary.line).")
        }
    }
}
