import Foundation

/// How long some jobs took.
struct Latencies {
    /// Milliseconds, the shortest first.
    private let sorted: [Double]

    init(_ milliseconds: [Double]) { sorted = milliseconds.sorted() }

    var count: Int { sorted.count }
    var worst: Double { sorted.last ?? 0 }

    /// What this part (0 to 1) of them did not exceed; 0 where there are none.
    func percentile(_ part: Double) -> Double {
        let rank = Int((Double(sorted.count) * part).rounded(.up))
        return sorted.isEmpty ? 0 : sorted[min(max(rank, 1), sorted.count) - 1]
    }

    /// For people.
    var text: String {
        "\(count) jobs: "
            + String(format: "p50 %.1f ms, p99 %.1f ms, worst %.1f ms", percentile(0.5), percentile(0.99), worst)
    }
}
