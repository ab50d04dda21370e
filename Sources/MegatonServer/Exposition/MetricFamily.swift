package import MegatonCore

/// A metric with its values at one moment.
package struct MetricFamily: Sendable, Equatable {
    /// One value with its labels.
    package struct Sample: Sendable, Equatable {
        /// Added to the name of the metric: `_bucket`, `_sum` and `_count` of a histogram; otherwise empty.
        package var suffix = ""
        package var labels: [(name: String, value: String)]
        package var value: Double

        package init(_ value: Double, suffix: String = "", labels: [(name: String, value: String)] = []) {
            self.suffix = suffix
            self.labels = labels
            self.value = value
        }

        package static func == (one: Sample, other: Sample) -> Bool {
            one.suffix == other.suffix && one.value == other.value
                && one.labels.elementsEqual(other.labels) { $0 == $1 }
        }
    }

    package let description: MetricDescription
    package var samples: [Sample]

    package init(_ description: MetricDescription, _ samples: [Sample]) {
        self.description = description
        self.samples = samples
    }

    /// A metric with one value without labels.
    package init(_ description: MetricDescription, _ value: Double) {
        self.init(description, [Sample(value)])
    }
}
