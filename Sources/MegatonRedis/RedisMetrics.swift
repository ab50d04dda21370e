package import MegatonCore
internal import Metrics

/// Counts of a client of Redis, by swift-metrics.
package struct RedisMetrics: Sendable {
    static let commands = MetricDescription(
        "megaton_redis_commands_total",
        .counter,
        "Commands that were sent to Redis, by the purpose of the connection",
        labels: ["role"]
    )
    static let failures = MetricDescription(
        "megaton_redis_failures_total",
        .counter,
        "Calls to Redis that failed, by the purpose of the connection and the code of the error",
        labels: ["role", "code"]
    )

    package static let descriptions = [commands, failures]

    private let sent: Counter
    private let role: String
    private let factory: any MetricsFactory

    /// - Parameter role: purpose of the connection.
    init(role: String) {
        factory = MetricsSystem.factory
        self.role = role
        sent = Counter(label: Self.commands.name, dimensions: [("role", role)], factory: factory)
    }

    func count(_ commands: Int) { sent.increment(by: commands) }

    func count(_ error: RedisError) {
        // Failures are rare, so that none is made in advance.
        Counter(
            label: Self.failures.name,
            dimensions: [("role", role), ("code", "\(error.code)")],
            factory: factory
        ).increment()
    }
}
