import MegatonCluster

/// Rates of a shared cache between two readings of its counters.
struct CacheRates: Sendable, Codable, Equatable {
    /// Seconds between the readings.
    let seconds: Double
    /// Lookups a second that found an entry, and that found none.
    let hits: Double
    let misses: Double
    /// Fraction of lookups that were hits; nil without a lookup.
    let hitRatio: Double?
    /// Requests to origins a second.
    let originFetches: Double
    /// Renditions rendered a second.
    let renders: Double
    /// Bytes a second written to the cache, and read from it.
    let bytesIn: Double
    let bytesOut: Double

    /// - Parameter seconds: time between the readings, more than 0.
    init(from first: CacheStatistics, to second: CacheStatistics, seconds: Double) {
        // Counters that an operator has deleted begin again at zero.
        func rate(_ path: KeyPath<CacheStatistics, Int>) -> Double {
            max(0, Double(second[keyPath: path]) - Double(first[keyPath: path])) / seconds
        }
        self.seconds = seconds
        hits = rate(\.hits)
        misses = rate(\.misses)
        hitRatio = hits + misses > 0 ? hits / (hits + misses) : nil
        originFetches = rate(\.originFetches)
        renders = rate(\.renders)
        bytesIn = rate(\.bytesIn)
        bytesOut = rate(\.bytesOut)
    }
}
