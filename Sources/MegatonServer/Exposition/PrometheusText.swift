internal import Foundation
internal import MegatonCore

/// Text format of Prometheus, version 0.0.4.
///
/// Source: https://prometheus.io/docs/instrumenting/exposition_formats/
package enum PrometheusText {
    /// Value of the header `Content-Type`.
    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// The metrics in the order of their names, each once with its help and its type. One without a value has only
    /// these, so that its name can be found before it first counts.
    package static func encode(_ families: [MetricFamily]) -> String {
        var text = ""
        let sorted = families.sorted { $0.description.name < $1.description.name }
        for (index, family) in sorted.enumerated() {
            let description = family.description
            // Two readers may know the same metric: a second header would make the text invalid.
            if index == 0 || sorted[index - 1].description.name != description.name {
                text += "# HELP \(description.name) \(escapedHelp(description.help))\n"
                text += "# TYPE \(description.name) \(description.kind.rawValue)\n"
            }
            for sample in family.samples {
                text += description.name + sample.suffix + labels(sample.labels) + " " + number(sample.value) + "\n"
            }
        }
        return text
    }

    /// `{name="value",…}`; empty without labels.
    static func labels(_ labels: [(name: String, value: String)]) -> String {
        if labels.isEmpty { return "" }
        return "{" + labels.map { "\($0.name)=\"\(escaped($0.value))\"" }.joined(separator: ",") + "}"
    }

    /// A number as Prometheus reads it: without a fraction if it is whole.
    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        // Doubles have all whole numbers up to 2^53.
        if value == value.rounded(), abs(value) < 9_007_199_254_740_992 { return String(Int64(value)) }
        return "\(value)"
    }

    private static func escaped(_ value: String) -> String {
        escapedHelp(value).replacingOccurrences(of: "\"", with: "\\\"")
    }

    private static func escapedHelp(_ text: String) -> String {
        text.replacingOccurrences(of: "\\", with: "\\\\").replacingOccurrences(of: "\n", with: "\\n")
    }
}
