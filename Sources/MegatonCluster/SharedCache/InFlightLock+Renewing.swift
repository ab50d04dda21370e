internal import Logging
internal import MegatonPipeline
internal import MegatonRedis
import Synchronization

// Heartbeat of the leases: a leader holds its flight as long as it renews it.
extension InFlightLock {
    func renew() async {
        await every(lease / 3, startsAtOnce: false) { await renewLeads() }
    }

    /// Renews all flights that this process leads, in one round trip.
    func renewLeads() async {
        let leads = leading.withLock { Array($0) }
        if leads.isEmpty { return }
        do {
            let replies = try await cache.redis.run(
                FlightScripts.renewFlight,
                calls: leads.map { lead in
                    (
                        [CacheKeys.flight(lead.key)],
                        [.string(owner), .int(lead.token ?? 0), .int(lease.wholeMilliseconds)]
                    )
                }
            )
            let lost = replies.count { $0.int != 1 }
            if lost > 0 { statistics?.add("flights_lost", lost) }
        } catch {
            logger.debug("cannot renew flights", metadata: [LogKey.error: "\(error)"])
        }
    }
}
