import Foundation
import MegatonPipeline

/// Results of `megaton-bench cache`.
struct CacheReport: Encodable, Sendable {
    /// One cache, one size, one direction.
    struct Row: Encodable, Sendable {
        var cache: String
        /// `put` or `get`.
        var operation: String
        /// Size of an entry.
        var bytes: Int
        var entriesPerSecond: Double
        /// Millions of bytes per second.
        var megabytesPerSecond: Double
        /// Entries that were put and not found: they were evicted, or the cache failed.
        var misses: Int
        var latency: Percentiles

        init(
            _ cache: String,
            _ operation: String,
            _ bytes: Int,
            _ histogram: LatencyHistogram,
            misses: Int,
            in time: Duration
        ) {
            self.cache = cache
            self.operation = operation
            self.bytes = bytes
            self.misses = misses
            entriesPerSecond = Double(histogram.count) / max(1e-6, time.inSeconds)
            megabytesPerSecond = entriesPerSecond * Double(bytes) / 1e6
            latency = Percentiles(histogram)
        }
    }

    /// Number of concurrent operations.
    var concurrency: Int
    var rows: [Row]

    var text: String {
        let lines = rows.map { row in
            row.cache.padding(toLength: 8, withPad: " ", startingAt: 0) + row.operation
                + String(
                    format: "%10ld%11.0f%12.1f%8ld",
                    row.bytes,
                    row.entriesPerSecond,
                    row.megabytesPerSecond,
                    row.misses
                ) + row.latency.columns
        }
        return
            ([
                "\(concurrency) operations at a time",
                "cache           bytes  entries/s        MB/s  misses" + Percentiles.heads,
            ] + lines).joined(separator: "\n")
    }
}
