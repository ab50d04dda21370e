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
/// every caller leads if the cache Redis of the key cannot be reached, or if it is full, so that a flight could have no
/// result.
///
/// # Messages
/// A process subscribes to the channel of a flight while it waits for it, and to the channel of deletions while near
/// caches observe them (`observeDeletions`); one that does neither receives no message. The end of a flight without
/// waiters is not published, and a deletion only if there was an entry. Messages may be lost, and what that costs is
/// bounded:
///
/// - A waiter looks again after two seconds at most.
/// - A near cache serves a copy after its entry was deleted until the copy is as old as the time to live of near
///   caches, and never beyond the lifetime that the origin gave the response. That happens if the message is late or
///   lost, and if the entry was evicted before it was deleted, because then nothing is published. After an interruption
///   of the subscription, all copies count as deleted.
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
    /// Subscriptions at each server of the cache, in the order of the servers.
    private let subscriptions: [ChannelSubscriptions]
    /// Flights that this process leads, renewed until they land. Bounded by the jobs that run and the uploads.
    let leading = Mutex(LedFlights())

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
        subscriptions = cache.nodes.all.map { node in
            ChannelSubscriptions(
                node.redis.configuration,
                group: group,
                logger: logger,
                onSubscribed: { channel in
                    if channel == CacheKeys.deletions { deletions.notify(nil) } else { waiters.subscribed(to: channel) }
                },
                onMessage: { channel, message in
                    if channel == CacheKeys.deletions {
                        deletions.notify(message)
                    } else {
                        waiters.landed(on: channel)
                    }
                }
            )
        }
    }

    /// Listens for landings and renews the leases of the flights that this process leads, until the task is cancelled.
    public func run() async {
        await withTaskGroup(of: Void.self) { group in
            for subscriptions in subscriptions { group.addTask { await subscriptions.run() } }
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
        await begin(keys, after: waits, maximumFailureAge: maximumFailureAge, known: [:])
    }

    package func begin(
        _ keys: [CacheKey],
        after waits: [SingleFlight.Waiter],
        maximumFailureAge: Duration?,
        known: [CacheKey: CachedData]
    ) async -> [SingleFlight.Decision] {
        let known = Dictionary(
            uniqueKeysWithValues: known.map { key, copy -> (CacheKey, CachedData) in
                var copy = copy
                copy.checksum = CacheEntry.checksum(of: copy.data, isRendition: key.kind == .rendition)
                return (key, copy)
            }
        )
        let awaited = Dictionary(waits.map { ($0.key, $0.token ?? 0) }, uniquingKeysWith: max)
        let lookup = leading.withLock { $0.beginLookup(keys) }
        // Not before the new leads are registered.
        defer { leading.withLock { $0.endLookup(lookup) } }
        return await cache.nodes.perform(keys, by: \.digest) { [self] node, keys in
            let calls = keys.map { key -> (keys: [String], arguments: [RedisArgument]) in
                (
                    [CacheKeys.entry(key), CacheKeys.flight(key), CacheKeys.negative(key)],
                    [
                        .string(owner), .int(lease.wholeMilliseconds), .int(awaited[key] ?? 0),
                        .int(lookup.oldest[key] ?? 0), .int(maximumFailureAge?.wholeMilliseconds ?? -1),
                        .string(known[key]?.checksum ?? ""), .int(lookup.number),
                    ]
                )
            }
            return await begin(keys, calls, known: known, at: node)
        }
    }

    /// Looks up the keys of one server.
    private func begin(
        _ keys: [CacheKey],
        _ calls: [(keys: [String], arguments: [RedisArgument])],
        known: [CacheKey: CachedData],
        at node: CacheNodes.Node
    ) async -> [SingleFlight.Decision] {
        do {
            let originals = keys.filter { $0.kind == .original }
            let resumable = keepsPartials ? originals.filter { hasPartials(of: $0, at: node) } : []
            let (found, replies) = try await node.redis.run(
                FlightScripts.beginFlight,
                after: resumable.map {
                    ["EXISTS", .string(CacheKeys.data(RedisDataCache.digest(ofPartial: $0)))]
                } + originals.map { ["EXISTS", .string(CacheKeys.touch($0))] },
                calls: calls
            )
            // All leads are registered before any entry is read: a stale entry may be large, and the other leases must
            // be renewed meanwhile. These leads lack the stale bytes, as they only serve for renewal.
            let answers = replies.map { reply in
                Result { () throws(RedisError) -> FlightReply in try FlightReply(reply) }
            }
            let leads = zip(keys, answers).compactMap { key, answer -> SingleFlight.Leader? in
                guard case .success(.lead(let token?, _)) = answer else { return nil }
                return SingleFlight.Leader(key: key, token: token)
            }
            leading.withLock { $0.add(leads) }
            var decisions: [SingleFlight.Decision] = []
            let exists = found.map { $0.int.map { $0 == 1 } }
            let hasPartial = Dictionary(zip(resumable, exists)) { first, _ in first }
            let wasFetched = Dictionary(zip(originals, exists.dropFirst(resumable.count))) { first, _ in first }
            for (key, answer) in zip(keys, answers) {
                let history = OriginalHistory(
                    hasPartial: hasPartial[key] ?? nil,
                    wasFetched: wasFetched[key] ?? nil
                )
                let decision = await decide(key, answer, history, known: known[key])
                if let lead = decision.leader { await note(.lead, of: lead) }
                decisions.append(decision)
            }
            return decisions
        } catch {
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

    /// Whether partial downloads of the original are at the same server as the original, so that one lookup finds both.
    private func hasPartials(of original: CacheKey, at node: CacheNodes.Node) -> Bool {
        cache.nodes[RedisDataCache.digest(ofPartial: original)] === node
    }

    package func wait(for flight: SingleFlight.Waiter) async {
        let random = Duration.seconds(Double.random(in: Self.jitter))
        let limit = min(.seconds(flight.remaining) + random, Self.longestSleep)
        let node = cache.nodes[flight.key]
        await waiters.wait(
            on: CacheKeys.landing(flight.key),
            of: subscriptions[node.index],
            atMost: limit
        ) { [logger] in
            do throws(RedisError) {
                let token = try await node.redis.send(["HGET", .string(CacheKeys.flight(flight.key)), "t"])
                return token.int != flight.token
            } catch {
                logger.debug("cannot look at a flight; waiting for it", metadata: [LogKey.error: "\(error)"])
                return false
            }
        }
    }

    @discardableResult
    package func finish(_ entries: [(leader: SingleFlight.Leader, entry: CachedData?)]) async -> Set<CacheKey> {
        // At all servers at the same time, and at each of them one after the other.
        let kept = await cache.nodes.perform(entries, by: { $0.leader.key.digest }) { [self] _, entries in
            var kept: [CacheKey?] = []
            for (lead, entry) in entries { kept.append(await isKept(entry, of: lead) ? lead.key : nil) }
            return kept
        }
        return Set(kept.compactMap { $0 })
    }

    /// Ends a flight with an entry or without, if there is a flight to end or an entry to store.
    ///
    /// - Returns: whether the entry was stored, or not stored because nothing else needs it.
    private func isKept(_ entry: CachedData?, of lead: SingleFlight.Leader) async -> Bool {
        guard let token = lead.token else { return false }
        // An unlocked lead has no flight to end: without an entry, the `uncacheable` mark of the last response stays.
        if lead.isUnlocked, entry.map(isKeepable) != true { return false }
        // Renewed until the entry is stored: writing many chunks takes time.
        leading.withLock { $0.markEnding(lead) }
        defer { leading.withLock { $0.remove(lead) } }
        return await isAccepted(entry, of: lead, token: token)
    }

    /// Ends a flight with an entry or without.
    ///
    /// - Returns: whether the entry was stored, or not stored because nothing else needs it.
    private func isAccepted(_ entry: CachedData?, of lead: SingleFlight.Leader, token: Int) async -> Bool {
        let capacity = cache.nodes[lead.key].capacity
        let isUpload = entry.map(isKeepable) == true && !Self.hasBytes(of: lead, entry: entry)
        do {
            if isUpload, !capacity.admitsWrite() {
                await end(lead, error: nil, isFull: true)
                return false
            }
            var answer = try await touched(entry, of: lead, token: token)
            if answer == nil, entry?.isPart == true {
                // Other processes wait for the whole original: one of them leads now.
                await end(lead, error: nil)
                return false
            }
            if answer == nil { answer = try await store(entry, as: lead, token: token) }
            if isUpload { capacity.noteSuccess() }
            await note(.land, of: lead, result: entry == nil ? "uncached" : answer)
            switch answer {
            case "ok": return entry.map(isKeepable) == true
            case "skipped":
                statistics?.add("originals_skipped", 1)
                return true
            case "stale": statistics?.add("stale_writes_refused", 1)
            default: statistics?.add("cache_errors", 1)
            }
        } catch {
            let isFull = capacity.noteFailure(error)
            if !isFull { statistics?.add("cache_errors", 1) }
            logger.debug("a cache entry was not stored", metadata: [LogKey.error: "\(error)"])
            // The flight must end all the same, or its waiters wait for the whole lease. Without a new entry, the stale
            // one is no longer valid.
            await end(lead, error: nil, isFull: isFull, deletesEntry: entry.map(isKeepable) != true)
        }
        return false
    }

    package func fail(_ leads: [SingleFlight.Leader], error: ImagePipeline.Error) async {
        let led = leads.filter { $0.token != nil && !$0.isUnlocked }
        _ = await cache.nodes.perform(led, by: \.key.digest) { [self] _, leads in
            for lead in leads {
                if lead.stale?.mayServe(after: error) == true { statistics?.add("stale_hits", 1) }
                leading.withLock { $0.markEnding(lead) }
                await end(lead, error: error)
                leading.withLock { $0.remove(lead) }
            }
            return leads
        }
    }

    /// Reports deletions while `run` listens. Entries that an operator deletes in Redis by hand are not reported.
    package func observeDeletions(_ handler: @escaping @Sendable (String?) -> Void) -> any Cancellable {
        let observation = deletions.add(handler)
        for subscriptions in subscriptions {
            // Active already, for another observer: from now on this one gets the messages too.
            if subscriptions.subscribe(to: CacheKeys.deletions) { handler(nil) }
        }
        return DeletionObservation(handle: observation, subscriptions: subscriptions)
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
