internal import Logging
internal import MegatonPipeline
internal import MegatonRedis
import Synchronization

/// Flights that a process leads.
struct LedFlights {
    private var leaders: Set<SingleFlight.Leader> = []
    /// Those of `leaders` whose end may have reached Redis already.
    private var ending: Set<SingleFlight.Leader> = []
    /// Number of leaders of each key.
    private var leads: [CacheKey: Int] = [:]
    /// Numbers of the lookups of each key whose replies have not been read, ascending.
    private var lookups: [CacheKey: [Int]] = [:]
    private var lastNumber = 0

    /// A lookup that may become the leader of its keys.
    struct Lookup {
        /// Above those of earlier lookups.
        let number: Int
        /// For each key 0 if this process leads it, or else the number of the oldest lookup under way, which may lead
        /// it. If Redis has a flight of this process that an older one has begun, its reply was lost.
        let oldest: [CacheKey: Int]
    }

    var all: [SingleFlight.Leader] { Array(leaders) }

    /// Registers a lookup until `endLookup`.
    mutating func beginLookup(_ keys: [CacheKey]) -> Lookup {
        lastNumber += 1
        var oldest: [CacheKey: Int] = [:]
        for key in keys where oldest[key] == nil {
            lookups[key, default: []].append(lastNumber)
            oldest[key] = leads[key] == nil ? lookups[key]?.first : 0
        }
        return Lookup(number: lastNumber, oldest: oldest)
    }

    mutating func endLookup(_ lookup: Lookup) {
        for key in lookup.oldest.keys {
            lookups[key]?.removeAll { $0 == lookup.number }
            if lookups[key]?.isEmpty == true { lookups[key] = nil }
        }
    }

    mutating func add(_ new: [SingleFlight.Leader]) {
        for leader in new where leaders.insert(leader).inserted { leads[leader.key, default: 0] += 1 }
    }

    mutating func markEnding(_ leader: SingleFlight.Leader) {
        if leaders.contains(leader) { ending.insert(leader) }
    }

    mutating func remove(_ leader: SingleFlight.Leader) {
        if leaders.remove(leader) != nil { leave(leader.key) }
        ending.remove(leader)
    }

    /// Removes flights whose renewal was refused.
    ///
    /// - Returns: the number of those that were lost: another process may lead them now. The others have ended.
    mutating func removeRefused(_ refused: [SingleFlight.Leader]) -> Int {
        let lost = refused.filter { leaders.contains($0) && !ending.contains($0) }
        for leader in lost { remove(leader) }
        return lost.count
    }

    private mutating func leave(_ key: CacheKey) {
        let count = leads[key] ?? 0
        leads[key] = count > 1 ? count - 1 : nil
    }
}

// Heartbeat of the leases: a leader holds its flight as long as it renews it.
extension InFlightLock {
    func renew() async {
        await every(lease / 3, startsAtOnce: false) { await renewLeads() }
    }

    /// Renews all flights that this process leads, in one round trip for each server.
    func renewLeads() async {
        let leads = leading.withLock { $0.all }
        if leads.isEmpty { return }
        let refused = await cache.nodes.perform(leads, by: \.key.digest) { [self] node, leads in
            await renew(leads, at: node)
        }
        let lost = leading.withLock { $0.removeRefused(zip(leads, refused).filter(\.1).map(\.0)) }
        if lost > 0 { statistics?.add("flights_lost", lost) }
    }

    /// - Returns: for each lead, whether the server has refused the renewal.
    private func renew(_ leads: [SingleFlight.Leader], at node: CacheNodes.Node) async -> [Bool] {
        do {
            let replies = try await node.redis.run(
                FlightScripts.renewFlight,
                calls: leads.map { lead in
                    (
                        [CacheKeys.flight(lead.key)],
                        [.string(owner), .int(lead.token ?? 0), .int(lease.wholeMilliseconds)]
                    )
                }
            )
            return zip(leads, replies).map { $1.int == 0 }
        } catch {
            logger.debug("cannot renew flights", metadata: [LogKey.error: "\(error)"])
            return leads.map { _ in false }
        }
    }

    /// Ends the flights that this process still leads, at its end, so that no waiter waits for their leases: in one
    /// round trip for each server, at the same time. A server that does not answer delays the end of the process by
    /// `limit`, and the flights end with their leases.
    func abandonLeads(within limit: Duration = .seconds(1)) async {
        let leads = leading.withLock { $0.all }
        let haveEnded = await cache.nodes.perform(leads, by: \.key.digest) { [self] node, leads in
            await abandon(leads, at: node, within: limit)
        }
        for (lead, hasEnded) in zip(leads, haveEnded) where hasEnded { await note(.land, of: lead, result: "failed") }
        leading.withLock { leading in
            for lead in leads { leading.remove(lead) }
        }
    }

    /// - Returns: for each lead, whether its flight has ended.
    private func abandon(
        _ leads: [SingleFlight.Leader],
        at node: CacheNodes.Node,
        within limit: Duration
    ) async -> [Bool] {
        do {
            let replies = try await node.redis.run(
                FlightScripts.failFlight,
                calls: leads.map { failure(of: $0, token: $0.token ?? 0) },
                timeout: limit
            )
            return replies.map { if case .error = $0 { false } else { true } }
        } catch {
            logger.debug("cannot end flights; their leases will expire", metadata: [LogKey.error: "\(error)"])
            return leads.map { _ in false }
        }
    }
}
