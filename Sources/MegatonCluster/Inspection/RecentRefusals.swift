/// Whether the shared cache has refused entries lately, from readings of its counters.
///
/// The memory of a full cache moves around its limit, so that one reading finds refused entries and the next does not:
/// a warning that followed each reading would come and go.
package struct RecentRefusals: Sendable {
    /// The settings of a server that an operator changes for a full cache.
    private struct Setting: Equatable {
        let limit: Int
        let evicts: Bool
    }

    /// Time for which refused entries are recent, from the reading that found them.
    package static let window: Duration = .seconds(60)

    private var last: (statistics: CacheStatistics, at: ContinuousClock.Instant)?
    private var foundAt: ContinuousClock.Instant?
    /// By the address of the server; those that have not answered yet are missing.
    private var settings: [String: Setting] = [:]

    package init() {}

    /// Compares a reading with the one before. The first, and one after a long pause, say nothing about now. Refused
    /// entries are forgotten once the limit or the policy of a server is another one: that is how it is repaired.
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
            let setting = Setting(limit: server.limit, evicts: server.evicts)
            if let before = settings.updateValue(setting, forKey: server.address), before != setting { foundAt = nil }
        }
    }

    /// Whether a reading within the last minute has found refused entries.
    package func hasRefused(at now: ContinuousClock.Instant) -> Bool {
        foundAt.map { $0.duration(to: now) <= Self.window } ?? false
    }
}
