import Foundation

/// Latencies of jobs.
struct Latencies {
    /// In milliseconds, in ascending order.
    private let sorted: [Double]

    init(_ milliseconds: [Double]) { sorted = milliseconds.sorted() }

    var count: Int { sorted.count }
    var worst: Double { sorted.last ?? 0 }

    /// The latency in milliseconds that a share `part` (0 to 1) of the jobs did not exceed; 0 if there are none.
    func percentile(_ part: Double) -> Double {
        let rank = Int((Double(sorted.count) * part).rounded(.up))
        return sorted.isEmpty ? 0 : sorted[min(max(rank, 1), sorted.count) - 1]
    }

    /// A text for reports.
    var text: String {
        "\(count) jobs: "
            + String(format: "p50 %.1f ms, p99 %.1f ms, worst %.1f ms", percentile(0.5), percentile(0.99), worst)
    }
}
