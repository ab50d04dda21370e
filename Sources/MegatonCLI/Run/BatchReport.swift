import MegatonCluster
import MegatonCommandLine

/// A batch as `megaton batch` shows it.
struct BatchReport: Encodable {
    let batch: String
    let state: String
    /// Number of submitted jobs; more may follow while the state is `open`.
    let submitted: Int
    let done: Int
    let failed: Int
    let cancelled: Int
    let deduplicated: Int
    let originFetches: Int
    let renders: Int
    /// Outcomes that were stored; nil if the batch keeps none.
    let outcomes: Int?
    /// Of these, the ones that a reader has acknowledged.
    let outcomesRead: Int?
    /// Outcomes that were not stored, or deleted unread, to make room.
    let outcomesDropped: Int?

    init(_ summary: BatchSummary) {
        let counters = summary.counters
        batch = summary.name
        state = counters.isFinished ? "finished" : counters["closed"] == 1 ? "running" : "open"
        submitted = max(counters["submitted"], counters["total"])
        done = counters["done"]
        failed = counters["failed"]
        cancelled = counters["cancelled"]
        deduplicated = counters["deduplicated"]
        originFetches = counters["origin_fetches"]
        renders = counters["renders"]
        let keepsOutcomes = counters["ledger"] == 1
        outcomes = keepsOutcomes ? counters["outcomes"] : nil
        outcomesRead = keepsOutcomes ? counters["read"] : nil
        outcomesDropped = keepsOutcomes ? counters["results_dropped"] + counters["results_deleted"] : nil
    }

    /// - Throws: `CLIError` if there is no batch of this name.
    static func of(_ name: String, _ queue: ShardedQueue) async throws -> BatchReport {
        let counters = try await BatchMonitor(queue: queue, batch: name).counters()
        guard counters.isKnown else { throw CLIError.notFound("there is no batch \"\(name)\".") }
        return BatchReport(BatchSummary(name: name, counters: counters))
    }

    /// Advice for a caller that waits for the end of an open batch.
    static func isOpen(_ name: String) -> String {
        "the batch is open: its submitter may push more jobs. If the submitter has ended, megaton batch close \(name) "
            + "lets the batch end with its last job."
    }

    var row: String {
        "\(batch)  \(state)  \(done) done, \(failed) failed, \(cancelled) cancelled, \(deduplicated) deduplicated of "
            + "\(submitted)"
    }
}
