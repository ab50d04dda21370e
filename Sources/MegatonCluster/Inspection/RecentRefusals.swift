/// Whether the shared cache has refused entries lately, from readings of its counters.
///
/// The memory of a full cache moves around its limit, so that one reading finds refused entries and the next does not:
/// a warning that followed each reading would come and go.
package struct RecentRefusals: Sendable {
    /// Time for which refused entries are recent, from the reading that found them.
    package static let memory: Duration = .seconds(60)

    private var last: (statistics: CacheStatistics, at: ContinuousClock.Instant)?
    private var foundAt: ContinuousClock.Instant?

    package init() {}

    /// Compares a reading with the one before. The first, and one after a long pause, say nothing about now.
    package mutating func add(_ statistics: CacheStatistics, at now: ContinuousClock.Instant) {
        if let last, last.at.duration(to: now) <= Self.memory, statistics.hasRefused(since: last.statistics) {
            foundAt = now
        }
        last = (statistics, now)
    }

    /// Whether a reading within the last minute has found refused entries.
    package func areKnown(at now: ContinuousClock.Instant) -> Bool {
        foundAt.map { $0.duration(to: now) <= Self.memory } ?? false
    }
}

extension CacheStatistics {
    /// That the cache refuses entries, and what to do, as sentences.
    package static let refusalWarning =
        "the shared cache refuses new entries, as it is full, and jobs go on without storing any. Raise maxmemory of "
        + "its Redis, or set maxmemory-policy to allkeys-lru, or to volatile-lru if it holds jobs too."

    /// Whether the cache has refused entries since an earlier reading.
    ///
    /// The memory in use does not show it: a large entry has no room in a server that is not quite full.
    package func hasRefused(since last: CacheStatistics) -> Bool { cacheFull > last.cacheFull }
}
