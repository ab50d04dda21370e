internal import CoreMetrics
package import MegatonCore

/// Counts of the route of images, by swift-metrics, beside those of the pipeline and of all requests.
package struct ImageMetrics: Sendable {
    static let bytes = MetricDescription(
        "megaton_image_bytes_total",
        .counter,
        "Bytes of images in the bodies of responses, ranges included"
    )
    static let refusals = MetricDescription(
        "megaton_image_refusals_total",
        .counter,
        "Requests for images that were refused for now with 429 or 503, by reason (rate, places, sending, start, host, "
            + "workers)",
        labels: ["reason"]
    )
    static let places = MetricDescription(
        "megaton_image_places",
        .gauge,
        "Images that the server loads or renders at a time at most (--image-limit)"
    )
    static let running = MetricDescription(
        "megaton_image_running",
        .gauge,
        "Images that the server looks up, loads or renders now"
    )
    static let requests = MetricDescription(
        "megaton_image_waiting_requests",
        .gauge,
        "Requests that wait for these images now"
    )

    package static let descriptions = [bytes, refusals, places, running, requests]

    /// The limit that a refused request has met.
    enum Refusal: String, CaseIterable {
        /// `--image-rate`.
        case rate
        /// `--image-limit`.
        case places
        /// The memory of images that are being sent.
        case sending
        /// Redis was not connected yet.
        case start
        /// The host of the source takes no request, or a limit of the pipeline.
        case host
        /// No worker can make the image now.
        case workers
    }

    private let factory: any MetricsFactory
    private let sent: Counter
    private let meters: [Meter]

    /// Counts with the factory that the process has bootstrapped.
    init() { self.init(MetricsSystem.factory) }

    init(_ factory: any MetricsFactory) {
        self.factory = factory
        sent = Counter(label: Self.bytes.name, dimensions: [], factory: factory)
        meters = [Self.places, Self.running, Self.requests].map {
            Meter(label: $0.name, dimensions: [], factory: factory)
        }
    }

    func count(_ refusal: Refusal) {
        Counter(label: Self.refusals.name, dimensions: [("reason", refusal.rawValue)], factory: factory).increment()
    }

    /// Counts an error that a limit has thrown.
    func counting<Value, Failure: Error>(
        _ refusal: Refusal,
        _ body: () throws(Failure) -> Value
    ) throws(Failure) -> Value {
        do throws(Failure) {
            return try body()
        } catch {
            count(refusal)
            throw error
        }
    }

    func countBody(_ bytes: Int) { sent.increment(by: bytes) }

    func set(_ places: ImagePlaces) {
        let values = [places.maximum, places.imageCount, places.requestCount]
        for (meter, value) in zip(meters, values) { meter.set(value) }
    }
}
