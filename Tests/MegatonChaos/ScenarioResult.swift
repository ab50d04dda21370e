import MegatonCluster

/// The result of a scenario or a run.
struct ScenarioResult {
    /// Measurements, for the table in the docs.
    private(set) var figures: [String] = []
    /// Violations; empty means success.
    private(set) var violations: [String] = []

    mutating func note(_ figure: String) { figures.append(figure) }

    /// Adds a violation if the condition does not hold.
    mutating func require(_ condition: Bool, _ what: @autoclosure () -> String) {
        if !condition { violations.append(what()) }
    }

    /// Adds a violation unless a batch has exactly `jobs` jobs, and each of them is done once.
    mutating func requireDone(_ jobs: Int, of batch: String, _ counters: BatchCounters) {
        require(
            counters["done"] == jobs && counters["total"] == jobs && counters.ended == jobs,
            "batch \(batch): \(counters["done"]) of \(counters["total"]) done, \(counters.ended) ended, not \(jobs)"
        )
    }

    mutating func add(violations found: some Sequence<String>) { violations += found }

    var hasPassed: Bool { violations.isEmpty }
}
