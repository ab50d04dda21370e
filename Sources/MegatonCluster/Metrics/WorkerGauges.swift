package import MegatonCore
internal import MegatonPipeline
internal import Metrics

/// The state of a worker now. Its owner sets the values before they are read.
package struct WorkerGauges: Sendable {
    static let places = MetricDescription(
        "megaton_worker_places",
        .gauge,
        "Jobs that the worker runs at a time at most (--concurrency)"
    )
    static let running = MetricDescription(
        "megaton_worker_running_jobs",
        .gauge,
        "Jobs that the worker runs now, without those that have left their places as their images take long to arrive"
    )

    package static let descriptions = [places, running] + MemoryGauges.descriptions

    private let meters: [Meter]
    private let memory = MemoryGauges()

    /// Uses the factory that the process has bootstrapped.
    init() {
        let factory = MetricsSystem.factory
        meters = [Self.places, Self.running].map { Meter(label: $0.name, dimensions: [], factory: factory) }
    }

    func set(places: Int, running: Int, _ budget: MemoryBudget) {
        for (meter, value) in zip(meters, [places, running]) { meter.set(value) }
        memory.set(budget)
    }
}

/// The memory for renders of a process now. Its owner sets the values before they are read.
package struct MemoryGauges: Sendable {
    static let capacity = MetricDescription(
        "megaton_memory_budget_bytes",
        .gauge,
        "Memory that renders may use at a time (--memory), bytes"
    )
    static let used = MetricDescription(
        "megaton_memory_budget_used_bytes",
        .gauge,
        "Memory that renders use now, by estimate, bytes"
    )
    static let waiting = MetricDescription(
        "megaton_memory_budget_waiting_renders",
        .gauge,
        "Renders that wait for memory now"
    )

    package static let descriptions = [capacity, used, waiting]

    private let meters: [Meter]

    /// Uses the factory that the process has bootstrapped.
    init() {
        let factory = MetricsSystem.factory
        meters = Self.descriptions.map { Meter(label: $0.name, dimensions: [], factory: factory) }
    }

    func set(_ budget: MemoryBudget) {
        let usage = budget.usage
        for (meter, value) in zip(meters, [budget.bytes, usage.bytesInUse, usage.waiting]) { meter.set(value) }
    }
}
