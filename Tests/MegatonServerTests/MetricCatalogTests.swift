import Foundation
import MegatonCore
import MegatonTestSupport
import Testing

@testable import MegatonServer

/// The metrics of Megaton and their page.
@Suite struct MetricCatalogTests {
    /// Source: https://prometheus.io/docs/practices/naming/
    @Test(arguments: MetricCatalog.all) func aNameFollowsTheConventions(_ metric: MetricDescription) {
        #expect(metric.name.wholeMatch(of: /(megaton|process)(_[a-z]+)+/) != nil)
        #expect(metric.name.hasSuffix("_total") == (metric.kind == .counter))
        #expect(metric.buckets.isEmpty == (metric.kind != .histogram))
        #expect(metric.buckets == metric.buckets.sorted())
        #expect(!metric.help.isEmpty && !metric.help.hasSuffix("."))
    }

    @Test func eachNameIsUsedOnce() {
        #expect(Set(MetricCatalog.all.map(\.name)).count == MetricCatalog.all.count)
    }

    /// The page has each metric with kind, labels and help, and no other.
    @Test func thePageListsAllMetrics() throws {
        let page = try Repository.text("docs/metrics.md")
        let entries = page.split(separator: "\n- ").dropFirst().map { entry in
            String(entry).components(separatedBy: "\n\n")[0]
                .split(whereSeparator: \.isWhitespace).joined(separator: " ")
        }
        let listed = Set(entries.filter { $0.hasPrefix("`megaton_") || $0.hasPrefix("`process_") })
        let expected = Set(
            MetricCatalog.all.map { metric in
                let labels = metric.labels.map { "`\($0)`" }.joined(separator: ", ")
                let word = metric.labels.count == 1 ? "label" : "labels"
                let suffix = labels.isEmpty ? "" : "; \(word) \(labels)"
                return "`\(metric.name)` (\(metric.kind.rawValue)\(suffix)): \(metric.help)."
            }
        )
        #expect(listed.subtracting(expected).isEmpty, "not in the program")
        #expect(expected.subtracting(listed).isEmpty, "not in docs/metrics.md")
    }
}
