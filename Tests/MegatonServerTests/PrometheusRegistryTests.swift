import MegatonCore
import Metrics
import Testing

@testable import MegatonServer

/// Metrics that swift-metrics counts, as Prometheus sees them.
@Suite struct PrometheusRegistryTests {
    private static let seconds = MetricDescription("job_seconds", .histogram, "Time of jobs", buckets: [0.1, 1])

    @Test func countersWithEqualLabelsAreOne() {
        let registry = PrometheusRegistry([])
        for _ in 1...3 {
            Counter(label: "ends", dimensions: [("result", "done")], factory: registry).increment(by: 2)
        }
        Counter(label: "ends", dimensions: [("result", "failed")], factory: registry).increment()
        let text = PrometheusText.encode(registry.snapshot())
        #expect(text.contains("# TYPE ends counter\nends{result=\"done\"} 6\nends{result=\"failed\"} 1\n"))
    }

    @Test func theBucketsOfAHistogramAreCumulative() {
        let registry = PrometheusRegistry([Self.seconds])
        let timer = Timer(label: "job_seconds", factory: registry)
        // A bound belongs to its bucket.
        for value in [0.05, 0.1, 0.5, 30] { timer.recordSeconds(value) }
        #expect(
            PrometheusText.encode(registry.snapshot()) == """
                # HELP job_seconds Time of jobs
                # TYPE job_seconds histogram
                job_seconds_bucket{le="0.1"} 2
                job_seconds_bucket{le="1"} 3
                job_seconds_bucket{le="+Inf"} 4
                job_seconds_sum 30.65
                job_seconds_count 4

                """
        )
    }

    @Test func aMeterGoesUpAndDown() {
        let registry = PrometheusRegistry([])
        let meter = Meter(label: "running", factory: registry)
        meter.set(5)
        meter.increment(by: 2.0)
        meter.decrement()
        #expect(PrometheusText.encode(registry.snapshot()).hasSuffix("running 6\n"))
    }

    /// Hosts and error codes come from outside: they must not fill the memory.
    @Test func labelsBeyondTheLimitCountTogether() {
        let registry = PrometheusRegistry([])
        let number = PrometheusRegistry.maximumSeries + 500
        for host in 0..<number {
            Counter(label: "fetches", dimensions: [("host", "\(host)")], factory: registry).increment()
        }
        let samples = registry.snapshot()[0].samples
        #expect(samples.count == PrometheusRegistry.maximumSeries + 1)
        #expect(samples.reduce(0) { $0 + $1.value } == Double(number))
        #expect(samples.first { $0.labels[0].value == "other" }?.value == 500)
    }

    /// Libraries use dots and dashes in names.
    @Test func namesAreMadeValid() {
        let registry = PrometheusRegistry([])
        Counter(label: "http.requests-total", dimensions: [("hb.uri", "/a")], factory: registry).increment()
        #expect(PrometheusText.encode(registry.snapshot()).hasSuffix("http_requests_total{hb_uri=\"/a\"} 1\n"))
    }

    @Test func anExpectedMetricIsNamedBeforeItCounts() {
        let registry = PrometheusRegistry([Self.seconds], expected: [Self.seconds])
        let header = "# HELP job_seconds Time of jobs\n# TYPE job_seconds histogram\n"
        #expect(PrometheusText.encode(registry.snapshot()) == header)
    }

    /// A kind that differs from the description is a fault in the program, which must not make the text invalid.
    @Test func aMetricOfAnotherKindThanDescribedIsShownAsItIs() {
        let registry = PrometheusRegistry([Self.seconds])
        Counter(label: "job_seconds", factory: registry).increment()
        #expect(PrometheusText.encode(registry.snapshot()).contains("# TYPE job_seconds counter\njob_seconds 1\n"))
    }
}
