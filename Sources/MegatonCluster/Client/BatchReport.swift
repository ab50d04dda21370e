/// A batch as `megaton batch` and the HTTP server show it.
package struct BatchReport: Encodable, Sendable, Equatable {
    /// The batch's name.
    package let batch: String
    /// `open`, `running`, `incomplete` or `finished`.
    package let state: String
    /// Number of submitted jobs; more may follow while the state is `open`.
    package let submitted: Int
    /// Number of jobs for which the batch waits, as they or `megaton batch close` named it; nil if there is none, and
    /// when the batch has ended.
    package let expected: Int?
    /// Number of shards that have lost their part of the batch, which then never finishes; nil if there are none.
    package let shardsLost: Int?
    package let done: Int
    package let failed: Int
    package let cancelled: Int
    package let deduplicated: Int
    package let originFetches: Int
    package let renders: Int
    /// Outcomes that were stored; nil if the batch keeps none.
    package let outcomes: Int?
    /// Of these, the ones that a reader has acknowledged.
    package let outcomesRead: Int?
    /// Outcomes that were not stored, or deleted unread, to make room.
    package let outcomesDropped: Int?

    package init(_ summary: BatchSummary) {
        let counters = summary.counters
        batch = summary.name
        let isIncomplete = counters.lostShards > 0
        shardsLost = isIncomplete ? counters.lostShards : nil
        state =
            counters.isFinished
            ? "finished" : isIncomplete ? "incomplete" : counters["closed"] == 1 ? "running" : "open"
        submitted = max(counters["submitted"], counters["total"])
        expected = counters.isFinished || counters["expected"] == 0 ? nil : counters["expected"]
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
}
