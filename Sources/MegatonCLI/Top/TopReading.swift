import MegatonCluster
import MegatonRedis

/// The state of a cluster at one time. No cache is scanned for it.
struct TopReading: Sendable {
    let status: ClusterStatus
    let ready: ReadyJobs
    let caches: [Inspector.CacheServer]
    /// Hosts that are limited, or whose circuit breaker is open.
    let restricted: [HostState]
    let counters: CacheStatistics
    /// The jobs that died last, the newest first.
    let failures: [DeadLetter]
    /// The time at which the counters were read.
    let time: ContinuousClock.Instant
    /// Warnings about each control Redis that is full, or nearly so.
    var memoryWarnings: [String] = []

    /// Maximum number of dead jobs in a reading.
    private static let failureLimit = 10

    /// - Parameter last: an earlier reading, whose dead jobs are kept if no more have died.
    /// - Throws: if no shard of the queue answers, or one refuses to.
    static func read(_ inspector: Inspector, after last: TopReading? = nil) async throws(RedisError) -> TopReading {
        let status = try await inspector.status(skipsDamage: true)
        let counters = try await inspector.cacheCounters()
        let time = ContinuousClock.now
        var failures = last?.failures ?? []
        // Their number alone may be the same after one was requeued and another one died.
        if last?.status.dead != status.dead || last?.status.failed != status.failed {
            failures = try await inspector.newestDeadLetters(limit: failureLimit).letters
        }
        return TopReading(
            status: status,
            ready: try await inspector.readyJobs(),
            caches: await inspector.cacheServers(),
            restricted: try await inspector.restrictedHosts(),
            counters: counters,
            failures: failures,
            time: time,
            memoryWarnings: await inspector.controlMemoryWarnings()
        )
    }
}
