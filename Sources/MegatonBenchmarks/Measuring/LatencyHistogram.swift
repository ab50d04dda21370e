import Foundation

/// Histogram of durations. Buckets are a sixteenth of a power of two wide, so that percentiles are accurate to 6 %.
struct LatencyHistogram: Codable, Sendable {
    private var counts: [Int: Int] = [:]
    private(set) var count = 0
    /// Sum of all durations, microseconds.
    private(set) var sum = 0

    init() {}

    /// The sum of several histograms.
    init(_ parts: [LatencyHistogram]) {
        for part in parts { merge(part) }
    }

    private static let parts = 16.0

    /// - Parameter microseconds: values below one count as one.
    mutating func add(_ microseconds: Int) {
        counts[Self.bucket(microseconds), default: 0] += 1
        count += 1
        sum += microseconds
    }

    mutating func merge(_ other: LatencyHistogram) {
        counts.merge(other.counts, uniquingKeysWith: +)
        count += other.count
        sum += other.sum
    }

    /// Percentile in milliseconds for a fraction from 0 to 1; nil if the histogram is empty.
    func percentile(_ part: Double) -> Double? {
        var left = Int((Double(count) * part).rounded(.up))
        for (bucket, number) in counts.sorted(by: { $0.key < $1.key }) {
            left -= number
            if left <= 0 { return Self.end(of: bucket) / 1000 }
        }
        return nil
    }

    private static func bucket(_ microseconds: Int) -> Int {
        Int((log2(Double(max(1, microseconds))) * parts).rounded(.down))
    }

    /// Upper bound of a bucket, microseconds.
    private static func end(of bucket: Int) -> Double { exp2(Double(bucket + 1) / parts) }
}

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
