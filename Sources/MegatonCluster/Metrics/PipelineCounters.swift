package import MegatonCore
internal import MegatonPipeline
internal import Metrics

/// Counts of the work of a pipeline, by swift-metrics: for jobs, for images of the HTTP server, and in the background.
package struct PipelineCounters: Sendable {
    static let bytesIn = MetricDescription(
        "megaton_source_bytes_total",
        .counter,
        "Bytes that were received from origins and files"
    )
    static let fetches = MetricDescription(
        "megaton_origin_fetches_total",
        .counter,
        "Requests to origins, and reads of files, failed ones included"
    )
    static let revalidations = MetricDescription(
        "megaton_origin_revalidations_total",
        .counter,
        "Requests that the origin answered with 304 Not Modified"
    )
    static let renders = MetricDescription(
        "megaton_renders_total",
        .counter,
        "Renditions that were made, by engine (planes, libvips) and format",
        labels: ["engine", "format"]
    )
    static let hits = MetricDescription(
        "megaton_cache_hits_total",
        .counter,
        "Originals and renditions from a cache, by its tier",
        labels: ["tier"]
    )
    static let staleHits = MetricDescription(
        "megaton_cache_stale_hits_total",
        .counter,
        "Hits of caches that were stale"
    )
    static let flightWaits = MetricDescription(
        "megaton_flight_waits_total",
        .counter,
        "Waits for the fetch or render of another job or request"
    )

    package static let descriptions = [bytesIn, fetches, revalidations, renders, hits, staleHits, flightWaits]

    private let factory: any MetricsFactory
    // Those without labels, made once.
    private let (received, requests, notModified): (Counter, Counter, Counter)
    private let (stale, waits): (Counter, Counter)

    /// Counts with the factory that the process has bootstrapped.
    init() {
        let factory = MetricsSystem.factory
        self.factory = factory
        func counter(_ description: MetricDescription) -> Counter {
            Counter(label: description.name, dimensions: [], factory: factory)
        }
        received = counter(Self.bytesIn)
        requests = counter(Self.fetches)
        notModified = counter(Self.revalidations)
        stale = counter(Self.staleHits)
        waits = counter(Self.flightWaits)
    }

    /// Counts the work of one request, also of one that fails.
    func count(_ counts: PipelineMetrics.Counts) {
        received.increment(by: counts.bytesIn)
        requests.increment(by: counts.originFetches)
        notModified.increment(by: counts.revalidations)
        stale.increment(by: counts.staleHits)
        waits.increment(by: counts.waits)
        for (kind, number) in counts.rendersByKind {
            let labels = [("engine", kind.isByPlanes ? "planes" : "libvips"), ("format", kind.format.rawValue)]
            counter(Self.renders, labels).increment(by: number)
        }
        for (tier, number) in counts.layers { counter(Self.hits, [("tier", tier)]).increment(by: number) }
    }

    private func counter(_ description: MetricDescription, _ labels: [(String, String)]) -> Counter {
        Counter(label: description.name, dimensions: labels, factory: factory)
    }
}
