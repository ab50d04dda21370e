/// Whether the shared cache has refused entries lately, from readings of its counters.
///
/// The memory of a full cache moves around its limit, so that one reading finds refused entries and the next does not:
/// a warning that followed each reading would come and go.
package struct RecentRefusals: Sendable {
    /// Time for which refused entries are recent, from the reading that found them.
    package static let window: Duration = .seconds(60)

    private var last: (statistics: CacheStatistics, at: ContinuousClock.Instant)?
    private var foundAt: ContinuousClock.Instant?
    /// `CacheMemory.settings` by the address of the server; those that have not answered yet are missing.
    private var settings: [String: [String]] = [:]

    package init() {}

    /// Compares a reading with the one before. The first, and one after a long pause, say nothing about now. Refused
    /// entries are forgotten once the limit or the policy of a server is another one: that is how it is repaired. The
    /// reading after that says nothing either, as workers add to the counters once a second.
    ///
    /// - Parameter servers: the servers of the cache.
    package mutating func add(
        _ statistics: CacheStatistics,
        _ servers: [CacheMemory],
        at now: ContinuousClock.Instant
    ) {
        if let last, last.at.duration(to: now) <= Self.window, statistics.hasRefused(since: last.statistics) {
            foundAt = now
        }
        last = (statistics, now)
        for server in servers where server.used != nil {
            let before = settings.updateValue(server.settings, forKey: server.address)
            // A cluster may have lost a master for a moment, which repairs nothing. If masters were added, the warning
            // ends with its minute.
            if let before, before != server.settings, before.count == server.settings.count {
                (foundAt, last) = (nil, nil)
            }
        }
    }

    /// Whether a reading within the last minute has found refused entries.
    package func hasRefused(at now: ContinuousClock.Instant) -> Bool {
        foundAt.map { $0.duration(to: now) <= Self.window } ?? false
    }
}
