import MegatonCluster

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
    }

    var row: String {
        "\(batch)  \(state)  \(done) done, \(failed) failed, \(cancelled) cancelled, \(deduplicated) deduplicated of "
            + "\(submitted)"
    }
}
