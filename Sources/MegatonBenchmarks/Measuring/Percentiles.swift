import Foundation

/// Milliseconds below which 50, 90 and 99 of 100 values lie.
struct Percentiles: Encodable, Sendable {
    var p50Milliseconds: Double
    var p90Milliseconds: Double
    var p99Milliseconds: Double

    /// Zeros if the histogram is empty.
    init(_ histogram: LatencyHistogram) {
        p50Milliseconds = histogram.percentile(0.5) ?? 0
        p90Milliseconds = histogram.percentile(0.9) ?? 0
        p99Milliseconds = histogram.percentile(0.99) ?? 0
    }

    /// Three columns of ten characters.
    var columns: String {
        [p50Milliseconds, p90Milliseconds, p99Milliseconds].map { String(format: "%10.3f", $0) }.joined()
    }

    /// The heads of the columns.
    static let heads = "    p50 ms    p90 ms    p99 ms"
}
