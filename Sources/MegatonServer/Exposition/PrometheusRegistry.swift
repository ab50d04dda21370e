package import CoreMetrics
package import MegatonCore
import Synchronization

/// The metrics that a process counts with swift-metrics, for Prometheus.
///
/// The program bootstraps swift-metrics with it. It knows the metrics of Megaton by their descriptions; others, such as
/// those of a library, get their kind from the way in which they are made.
///
/// A metric has at most ``maximumSeries`` combinations of labels. Further ones count together under the value `other`
/// of each label, so that labels from outside cannot fill the memory.
package final class PrometheusRegistry: MetricsFactory, Sendable {
    /// Maximum number of combinations of labels of one metric.
    package static let maximumSeries = 1_000

    private struct Family {
        let description: MetricDescription
        /// The values by their labels, as text.
        var series: [String: MetricSeries] = [:]
    }

    private let described: [String: MetricDescription]
    private let expected: [MetricDescription]
    private let families = Mutex<[String: Family]>([:])

    /// - Parameters:
    ///   - descriptions: metrics with their help and buckets.
    ///   - expected: those that this process counts: shown even before they first count.
    package init(_ descriptions: [MetricDescription], expected: [MetricDescription] = []) {
        described = Dictionary(descriptions.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        self.expected = expected
    }

    /// The values now.
    package func snapshot() -> [MetricFamily] {
        families.withLock { families in
            let counted = families.values.map { family in
                let series = family.series.sorted { $0.key < $1.key }
                return MetricFamily(family.description, series.flatMap { $0.value.samples })
            }
            return counted + expected.filter { families[$0.name] == nil }.map { MetricFamily($0, []) }
        }
    }

    // MARK: - swift-metrics

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        series(label, dimensions, .counter)
    }

    package func makeFloatingPointCounter(
        label: String,
        dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        series(label, dimensions, .counter)
    }

    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        series(label, dimensions, .gauge)
    }

    package func makeRecorder(
        label: String,
        dimensions: [(String, String)],
        aggregate: Bool
    ) -> any RecorderHandler {
        series(label, dimensions, aggregate ? .histogram : .gauge)
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        series(label, dimensions, .histogram)
    }

    // A value that is no longer needed stays: a counter that vanished and came back would look like a restart.
    package func destroyCounter(_ handler: any CounterHandler) {}
    package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) {}
    package func destroyMeter(_ handler: any MeterHandler) {}
    package func destroyRecorder(_ handler: any RecorderHandler) {}
    package func destroyTimer(_ handler: any TimerHandler) {}

    private func series(
        _ label: String,
        _ dimensions: [(String, String)],
        _ kind: MetricDescription.Kind
    ) -> MetricSeries {
        let name = Self.identifier(label, allowing: ":")
        return families.withLock { families in
            var family = families[name] ?? Family(description: describe(name, kind))
            defer { families[name] = family }
            var labels = dimensions.map { (name: Self.identifier($0.0), value: $0.1) }
            var key = PrometheusText.labels(labels)
            if family.series[key] == nil, family.series.count >= Self.maximumSeries {
                labels = labels.map { ($0.name, "other") }
                key = PrometheusText.labels(labels)
            }
            if let known = family.series[key] { return known }
            let series = MetricSeries(labels: labels, description: family.description)
            family.series[key] = series
            return series
        }
    }

    private func describe(_ name: String, _ kind: MetricDescription.Kind) -> MetricDescription {
        if let known = described[name], known.kind == kind { return known }
        return MetricDescription(
            name,
            kind,
            "Metric of a library, without a description",
            buckets: kind == .histogram ? MetricDescription.jobSeconds : []
        )
    }

    /// A text as the name of a metric or a label: other characters than letters, digits and `_` become `_`.
    private static func identifier(_ text: String, allowing other: Character? = nil) -> String {
        let name = text.map { $0.isASCII && ($0.isLetter || $0.isNumber) || $0 == "_" || $0 == other ? $0 : "_" }
        return (name.first?.isNumber == true ? "_" : "") + String(name)
    }
}
