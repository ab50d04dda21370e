package import MegatonCore
internal import Metrics

/// Counts of the coordinator of a shard, by swift-metrics. A worker that leads for lack of a coordinator counts too.
package struct AdmissionMetrics: Sendable {
    static let jobs = MetricDescription(
        "megaton_admitted_jobs_total",
        .counter,
        "Pushed jobs by result: admitted, invalid, duplicate, or cancelled with their batch",
        labels: ["result"]
    )
    static let leads = MetricDescription(
        "megaton_coordinator_leads",
        .gauge,
        "1 while this process leads the shard of the queue, otherwise 0",
        labels: ["shard"]
    )

    package static let descriptions = [jobs, leads]

    private let (admitted, invalid, duplicates, cancelled): (Counter, Counter, Counter, Counter)
    private let leading: Meter

    /// Counts with the factory that the process has bootstrapped.
    ///
    /// - Parameter shard: number of the shard.
    init(shard: Int) {
        let factory = MetricsSystem.factory
        func counter(_ result: String) -> Counter {
            Counter(label: Self.jobs.name, dimensions: [("result", result)], factory: factory)
        }
        admitted = counter("admitted")
        invalid = counter("invalid")
        duplicates = counter("duplicate")
        cancelled = counter("cancelled")
        leading = Meter(label: Self.leads.name, dimensions: [("shard", "\(shard)")], factory: factory)
        leading.set(0)
    }

    func count(admitted: Int, invalid: Int, duplicates: Int, cancelled: Int) {
        self.admitted.increment(by: admitted)
        self.invalid.increment(by: invalid)
        self.duplicates.increment(by: duplicates)
        self.cancelled.increment(by: cancelled)
    }

    func set(leads: Bool) { leading.set(leads ? 1 : 0) }
}
