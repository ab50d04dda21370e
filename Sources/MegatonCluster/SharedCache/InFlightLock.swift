internal import Foundation
public import Logging
public import MegatonPipeline
internal import MegatonRedis
package import NIOCore
internal import NIOPosix
import Synchronization

/// Single flight for the whole cluster, one fetch and one render per key: `SingleFlightCoordinating` on the cache
/// Redis. This is the single flight of the cluster; within a process, the pipeline coalesces requests itself.
///
/// The lock saves work; correctness never depends on it. A write by a leader that has lost its flight is refused, and
/// every caller leads if the cache Redis cannot be reached.
public final class InFlightLock: SingleFlightCoordinating {
    let cache: RedisDataCache
    let owner: String
    let lease: Duration
    let negatives: NegativePolicy
    let logger: Logger
    let statistics: StatisticsRecorder?
    private let history: History?
    /// Whether partial downloads are stored in this cache too.
    private let keepsPartials: Bool
    private let waiters = FlightWaiters()
    private let deletions = DeletionObservers()
    private let subscriber: RedisSubscriber
    /// Flights that this process leads, renewed until they land. Bounded by the jobs that run.
    let leading = Mutex<Set<SingleFlight.Leader>>([])

    /// Longest sleep of a waiter before it looks again: the delay that a lost message causes at most.
    private static let longestSleep: Duration = .seconds(2)
    /// Seconds, chosen at random, that a waiter adds to the end of the lease, so that waiters do not all look at the
    /// same moment.
    private static let jitter = 0.0...0.2

    /// Creates the lock; ``run()`` must be active for landings to be noticed and leases to be renewed.
    ///
    /// - Parameter lease: time for which a leader that died delays its waiters.
    public convenience init(
        cache: RedisDataCache,
        lease: Duration = .seconds(10),
        logger: Logger = Logger(label: "megaton.cache")
    ) {
        self.init(
            cache: cache,
            owner: ProcessIdentity.process(),
            lease: lease,
            group: MultiThreadedEventLoopGroup.singleton,
            logger: logger
        )
    }

    /// Creates the lock; `run` must be active for landings to be noticed and leases to be renewed.
    ///
    /// - Parameters:
    ///   - owner: this process, as `host:pid:random`.
    ///   - lease: time for which a leader that died delays its waiters.
    package convenience init(
        cache: RedisDataCache,
        owner: String,
        lease: Duration = .seconds(10),
        negatives: NegativePolicy = NegativePolicy(),
        group: any EventLoopGroup,
        logger: Logger
    ) {
        self.init(
            cache: cache,
            owner: owner,
            lease: lease,
            negatives: negatives,
            group: group,
            logger: logger,
            statistics: nil,
            history: nil
        )
    }

    init(
        cache: RedisDataCache,
        owner: String,
        lease: Duration,
        negatives: NegativePolicy,
        group: any EventLoopGroup,
        logger: Logger,
        statistics: StatisticsRecorder?,
        history: History?,
        keepsPartials: Bool = false
    ) {
        self.keepsPartials = keepsPartials
        self.cache = cache
        self.owner = owner
        self.lease = lease
        self.negatives = negatives
        self.logger = logger
        self.statistics = statistics
        self.history = history
        let (waiters, deletions) = (waiters, deletions)
        subscriber = RedisSubscriber(
            cache.redis.configuration,
            channels: CacheKeys.channels,
            group: group,
            logger: logger,
            onSubscribed: {
                waiters.wakeAll()
                deletions.notify(nil)
            },
            onMessage: { _, message in
                if let key = CacheKeys.deleted(message) { deletions.notify(key) } else { waiters.landed(message) }
            }
        )
    }

    /// Listens for landings and renews the leases of the flights that this process leads, until the task is cancelled.
    public func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.subscriber.run() }
            group.addTask { await self.renew() }
        }
    }

    // MARK: - SingleFlightCoordinating

    package func begin(_ keys: [CacheKey], after waits: [SingleFlight.Waiter]) async -> [SingleFlight.Decision] {
        await begin(keys, after: waits, maximumFailureAge: nil)
    }

    package func begin(
        _ keys: [CacheKey],
        after waits: [SingleFlight.Waiter],
        maximumFailureAge: Duration?
    ) async -> [SingleFlight.Decision] {
        let tickets = keys.map { waiters.register($0.description) }
        let awaited = Dictionary(waits.map { ($0.key, $0.token ?? 0) }, uniquingKeysWith: max)
        let own = Set(leading.withLock { $0.map { $0.key } })
        do {
            let originals = keepsPartials ? keys.filter { $0.kind == .original } : []
            let (partials, replies) = try await cache.redis.run(
                FlightScripts.beginFlight,
                after: originals.map { ["EXISTS", .string(RedisDataCache.name(ofPartial: $0))] },
                calls: keys.map { key in
                    (
                        [CacheKeys.entry(key), CacheKeys.flight(key), CacheKeys.negative(key)],
                        [
                            .string(owner), .int(lease.wholeMilliseconds), .int(awaited[key] ?? 0),
                            own.contains(key) ? "1" : "0", .int(maximumFailureAge?.wholeMilliseconds ?? -1),
                        ]
                    )
                }
            )
            // All leads are registered before any entry is read: a stale entry may be large, and the other leases must
            // be renewed meanwhile. These leads lack the stale bytes, as they only serve for renewal.
            let leads = zip(keys, replies).compactMap { key, reply in
                Self.token(reply).map { SingleFlight.Leader(key: key, token: $0) }
            }
            leading.withLock { $0.formUnion(leads) }
            var decisions: [SingleFlight.Decision] = []
            let hasPartial = Dictionary(zip(originals, partials.map { $0.int.map { $0 == 1 } })) { first, _ in first }
            for ((key, ticket), reply) in zip(zip(keys, tickets), replies) {
                let decision = await decide(key, ticket: ticket, reply: reply, hasPartial: hasPartial[key] ?? nil)
                if case .wait = decision {} else { waiters.unregister(key.description, ticket: ticket) }
                if let lead = decision.leader { await note(.lead, of: lead) }
                decisions.append(decision)
            }
            return decisions
        } catch {
            for (key, ticket) in zip(keys, tickets) { waiters.unregister(key.description, ticket: ticket) }
            statistics?.add("fail_open", keys.count)
            logger.debug(
                "the cache failed; this lookup works without single flight",
                metadata: [LogKey.error: "\(error)"]
            )
            let leads = keys.map { SingleFlight.Leader(key: $0, token: nil) }
            for lead in leads { await note(.lead, of: lead) }
            return leads.map { .lead($0) }
        }
    }

    package func wait(for flight: SingleFlight.Waiter) async {
        let random = Duration.seconds(Double.random(in: Self.jitter))
        let limit = min(.seconds(flight.remaining) + random, Self.longestSleep)
        await waiters.wait(flight.key.description, ticket: flight.ticket, atMost: limit)
    }

    // `async` although nothing suspends: in an asynchronous context Swift would prefer the protocol's default, which is
    // `async`.
    package func abandon(_ flight: SingleFlight.Waiter) async {
        waiters.unregister(flight.key.description, ticket: flight.ticket)
    }

    @discardableResult
    package func finish(_ entries: [(leader: SingleFlight.Leader, entry: CachedData?)]) async -> Set<CacheKey> {
        var kept: Set<CacheKey> = []
        for (lead, entry) in entries {
            guard let token = lead.token else { continue }
            // An unlocked lead has no flight to end: without an entry, the `uncacheable` mark of the last response
            // stays.
            if lead.isUnlocked, entry.map(isKeepable) != true { continue }
            // Renewed until the entry is stored: writing many chunks takes time.
            defer { leading.withLock { _ = $0.remove(lead) } }
            do {
                let answer = try await store(entry, as: lead, token: token)
                await note(.land, of: lead, result: entry == nil ? "uncached" : answer)
                switch answer {
                case "ok":
                    if entry.map(isKeepable) == true { kept.insert(lead.key) }
                    if lead.key.kind == .original, Self.hasBytes(of: lead, entry: entry) {
                        statistics?.add("revalidations", 1)
                    }
                case "stale": statistics?.add("stale_writes_refused", 1)
                default: statistics?.add("cache_errors", 1)
                }
            } catch {
                statistics?.add("cache_errors", 1)
                logger.debug("a cache entry was not stored", metadata: [LogKey.error: "\(error)"])
                // Redis is out of memory, for example: the flight must end all the same, or its waiters wait for the
                // whole lease.
                await end(lead, error: nil)
            }
        }
        return kept
    }

    package func fail(_ leads: [SingleFlight.Leader], error: ImagePipeline.Error) async {
        for lead in leads where lead.token != nil && !lead.isUnlocked {
            if lead.stale?.mayServe(after: error) == true { statistics?.add("stale_hits", 1) }
            await end(lead, error: error)
            leading.withLock { _ = $0.remove(lead) }
        }
    }

    /// Reports deletions while `run` listens. Entries that an operator deletes in Redis by hand are not reported.
    package func observeDeletions(_ handler: @escaping @Sendable (String?) -> Void) -> any Cancellable {
        deletions.add(handler)
    }

    // MARK: -

    /// Falls back to a lead without a lock if the reply cannot be read, for this key alone: the flights of other keys
    /// stay valid.
    private func decide(
        _ key: CacheKey,
        ticket: Int,
        reply: RedisValue,
        hasPartial: Bool?
    ) async -> SingleFlight.Decision {
        do throws(RedisError) {
            return try await decision(key, ticket: ticket, reply: reply, hasPartial: hasPartial)
        } catch {
            statistics?.add("fail_open", 1)
            logger.debug("a lookup failed; the caller leads without a lock", metadata: [LogKey.error: "\(error)"])
            return .lead(SingleFlight.Leader(key: key, token: nil))
        }
    }

    private func decision(
        _ key: CacheKey,
        ticket: Int,
        reply: RedisValue,
        hasPartial: Bool?
    ) async throws(RedisError) -> SingleFlight.Decision {
        if case .error(let text) = reply { throw RedisError(reply: text) }
        guard let fields = reply.array, let word = fields.first?.string else {
            throw RedisError(.unexpectedReply, "The script beginFlight returned an unexpected reply.")
        }
        switch word {
        case "hit" where fields.count == 4:
            if var entry = try await cache.read(CacheKeys.entry(key), header: fields[2], first: fields[3]) {
                // Data derived from the entry must not outlive it.
                entry.metadata.lifetime = Double(fields[1].int ?? 0) / 1000
                statistics?.add("hits", 1)
                return .hit(entry)
            }
            // Damaged, or deleted since: made again, this time without a lock.
            statistics?.add("misses", 1)
            return .lead(SingleFlight.Leader(key: key, token: nil))
        case "failed" where fields.count == 3 || fields.count == 6,
            "shared" where fields.count == 3 || fields.count == 6:
            // A waiter of the flight receives its failure as the leader does, not as a remembered one.
            let fresh = word == "shared" ? RememberedFailure(fields[1])?.error : nil
            let error = fresh ?? RememberedFailure.error(fields[1], millisecondsLeft: fields[2].int ?? 0)
            if let old = await stale(key, fields: fields.dropFirst(3)),
                old.mayServeWhileRevalidating || old.mayServe(after: error)
            {
                statistics?.add("stale_hits", 1)
                return .stale(old, nil)
            }
            statistics?.add("negatives", 1)
            return .failed(error)
        case "wait" where fields.count == 3 || fields.count == 6:
            if let old = await stale(key, fields: fields.dropFirst(3)), old.mayServeWhileRevalidating {
                statistics?.add("stale_hits", 1)
                return .stale(old, nil)
            }
            statistics?.add("waits", 1)
            let remaining = Double(max(0, fields[1].int ?? 0)) / 1000
            return .wait(SingleFlight.Waiter(key: key, remaining: remaining, ticket: ticket, token: fields[2].int))
        case "uncacheable" where fields.count == 2:
            statistics?.add("misses", 1)
            return .lead(SingleFlight.Leader(unlocked: key, token: fields[1].int))
        case "lead" where fields.count == 2 || fields.count == 5:
            let old = await stale(key, fields: fields.dropFirst(2))
            let lead = SingleFlight.Leader(key: key, token: fields[1].int, stale: old, hasPartial: hasPartial)
            statistics?.add("leads", 1)
            guard let old, old.mayServeWhileRevalidating else {
                statistics?.add("misses", 1)
                return .lead(lead)
            }
            statistics?.add("stale_hits", 1)
            return .stale(old, lead)
        default:
            throw RedisError(.unexpectedReply, "The script beginFlight returned the unexpected reply \"\(word)\".")
        }
    }

    /// The token, if the reply makes the caller the leader.
    private static func token(_ reply: RedisValue) -> Int? {
        guard let fields = reply.array, fields.count >= 2, fields[0].string == "lead" else { return nil }
        return fields[1].int
    }

    /// The stale entry, if the script returned one: ms since it became stale, m, chunk 0.
    ///
    /// Nil also if it cannot be read: neither a lead nor a wait must be lost for that.
    private func stale(_ key: CacheKey, fields: ArraySlice<RedisValue>) async -> CachedData? {
        let fields = Array(fields)
        guard fields.count == 3 else { return nil }
        do throws(RedisError) {
            var entry = try await cache.read(CacheKeys.entry(key), header: fields[1], first: fields[2])
            entry?.staleness = Double(max(0, fields[0].int ?? 0)) / 1000
            return entry
        } catch {
            statistics?.add("cache_errors", 1)
            logger.debug("cannot read a stale cache entry", metadata: [LogKey.error: "\(error)"])
            return nil
        }
    }

    func note(_ kind: HistoryEvent.Kind, of lead: SingleFlight.Leader, result: String? = nil) async {
        let token = lead.isUnlocked ? nil : lead.token
        await history?.note(HistoryEvent(kind, key: lead.key.description, token: token, result: result))
    }
}

extension ImagePipeline.Configuration {
    /// Shares originals, renditions and work in progress with all processes that use the cache Redis of the lock. The
    /// lock must be running: see ``InFlightLock/run()``.
    public mutating func share(_ lock: InFlightLock) { flights = lock }
}
