/// Name, help and labels of a metric, as Prometheus shows them and `docs/metrics.md` lists them.
///
/// Names follow the conventions of Prometheus: the prefix of the program, base units (seconds, bytes), and the suffix
/// `_total` of counters. Source: https://prometheus.io/docs/practices/naming/
package struct MetricDescription: Sendable, Equatable {
    package enum Kind: String, Sendable {
        case counter, gauge, histogram
    }

    package let name: String
    package let kind: Kind
    /// One sentence without a full stop.
    package let help: String
    /// Names of its labels, in their order.
    package let labels: [String]
    /// Upper bounds of the buckets of a histogram, ascending, without infinity; empty for the other kinds.
    package let buckets: [Double]

    package init(_ name: String, _ kind: Kind, _ help: String, labels: [String] = [], buckets: [Double] = []) {
        self.name = name
        self.kind = kind
        self.help = help
        self.labels = labels
        self.buckets = buckets
    }

    /// Bounds for the times of jobs, in seconds: from a cache hit to a render at the time limit.
    package static let jobSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800]
}
