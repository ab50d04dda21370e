import MegatonCore
import Testing

@testable import MegatonServer

/// The text format of Prometheus.
@Suite struct PrometheusTextTests {
    @Test func aMetricHasHelpTypeAndItsValues() {
        let jobs = MetricDescription("b_jobs", .gauge, "Jobs by state", labels: ["state"])
        let up = MetricDescription("a_up", .gauge, "Whether it is up")
        let text = PrometheusText.encode([
            MetricFamily(jobs, [.init(2, labels: [("state", "ready")]), .init(0.5, labels: [("state", "held")])]),
            MetricFamily(up, 1),
        ])
        #expect(
            text == """
                # HELP a_up Whether it is up
                # TYPE a_up gauge
                a_up 1
                # HELP b_jobs Jobs by state
                # TYPE b_jobs gauge
                b_jobs{state="ready"} 2
                b_jobs{state="held"} 0.5

                """
        )
    }

    /// A host comes from the URLs of users.
    @Test func valuesOfLabelsAreEscaped() {
        #expect(PrometheusText.labels([("host", "a\"b\\c\nd")]) == "{host=\"a\\\"b\\\\c\\nd\"}")
    }

    @Test(
        arguments: [
            (0, "0"), (-3, "-3"), (1e15, "1000000000000000"), (1e300, "1e+300"), (0.25, "0.25"), (.infinity, "+Inf"),
            (-.infinity, "-Inf"), (.nan, "NaN"),
        ] as [(Double, String)]
    )
    func numbersAreThoseOfPrometheus(_ value: Double, _ text: String) {
        #expect(PrometheusText.number(value) == text)
    }

    /// Two headers of one metric would make the whole text invalid.
    @Test func aMetricOfTwoReadersHasOneHeader() {
        let up = MetricDescription("up", .gauge, "Whether it is up", labels: ["of"])
        let text = PrometheusText.encode([
            MetricFamily(up, [.init(1, labels: [("of", "a")])]), MetricFamily(up, [.init(0, labels: [("of", "b")])]),
        ])
        #expect(text.split(separator: "\n").count { $0.hasPrefix("#") } == 2)
        #expect(text.hasSuffix("up{of=\"a\"} 1\nup{of=\"b\"} 0\n"))
    }
}
