internal import Foundation
internal import Logging
package import MegatonPipeline
internal import MegatonRedis
import Synchronization

// Versions of an entry: the one whose origin was asked last wins (`CachedData.Metadata.fetched`). The times are those
// of the workers' clocks, each of which `megaton doctor` compares with Redis if it runs on that machine. They are
// compared only here, where an origin was asked although there was an entry; all other writes are ordered by the tokens
// of their flights.
extension InFlightLock {
    /// How long results of flights that began before an entry was superseded are refused: longer than a job takes.
    private static let refusalTime: Duration = .seconds(600)

    /// Stores an entry in place of the present one, even if that is fresh, and of the result of a flight under way.
    ///
    /// - Returns: whether the entry was stored. It is refused if the origin was asked later for the present one, or for
    ///   one that is being stored.
    @discardableResult
    package func replace(_ entry: CachedData, for key: CacheKey) async -> Bool {
        guard isKeepable(entry) else {
            await supersede([key], at: entry.metadata.fetched)
            return false
        }
        let fetched = entry.metadata.fetched ?? Date().timeIntervalSince1970
        let lookup = leading.withLock { $0.beginLookup([key]) }
        // Not before the new lead is registered.
        defer { leading.withLock { $0.endLookup(lookup) } }
        do {
            let reply = try await cache.nodes[key].redis.run(
                FlightScripts.takeOverFlight,
                keys: [CacheKeys.entry(key), CacheKeys.flight(key)],
                arguments: [
                    .string(owner), .int(lease.wholeMilliseconds), .string("\(fetched)"), .int(lookup.number),
                ]
            )
            guard let fields = reply.array, fields.count == 3, let token = fields[1].int else {
                statistics?.add("stale_writes_refused", 1)
                return false
            }
            var entry = entry
            // An older entry, or one that an earlier leader would still store, must not stay.
            if fields[2].string == "1" { entry.isStoredIfReused = false }
            // One with a checksum is the present entry with other metadata: its bytes are not sent again.
            let leader = SingleFlight.Leader(key: key, token: token, stale: entry.checksum == nil ? nil : entry)
            leading.withLock { $0.add([leader]) }
            await note(.lead, of: leader)
            return await finish([(leader, entry)]).contains(key)
        } catch {
            statistics?.add("cache_errors", 1)
            logger.debug("a cache entry was not replaced", metadata: [LogKey.error: "\(error)"])
            return false
        }
    }

    /// Deletes entries that are out of date, and refuses the results of flights that began before.
    ///
    /// - Parameter fetched: when the origin was asked for what is now valid, seconds since 1970; now by default.
    ///   Entries whose origin was asked later stay.
    /// - Returns: the number of entries deleted.
    @discardableResult
    package func supersede(_ keys: [CacheKey], at fetched: Double? = nil) async -> Int {
        let fetched = fetched ?? Date().timeIntervalSince1970
        let deleted = await cache.nodes.perform(keys, by: \.digest) { [self] node, keys -> [Int] in
            do {
                let replies = try await node.redis.run(
                    FlightScripts.supersedeEntry,
                    calls: keys.map { Self.superseding($0, at: fetched) }
                )
                for case .error(let text) in replies { throw RedisError(reply: text) }
                return replies.map { $0.array?.first?.int ?? 0 }
            } catch {
                statistics?.add("cache_errors", 1)
                logger.warning(
                    "outdated cache entries could not be deleted; later jobs may use them until they expire",
                    metadata: [LogKey.error: "\(error)"]
                )
                return keys.map { _ in 0 }
            }
        }
        return deleted.reduce(0, +)
    }

    /// The keys and arguments of a call of `supersedeEntry`.
    ///
    /// - Parameter fetched: nil supersedes an entry of any version.
    static func superseding(_ key: CacheKey, at fetched: Double?) -> (keys: [String], arguments: [RedisArgument]) {
        (
            [CacheKeys.entry(key), CacheKeys.flight(key), CacheKeys.negative(key)],
            [
                .string(fetched.map { "\($0)" } ?? ""), .int(refusalTime.wholeMilliseconds),
                .string(CacheKeys.deletions),
                .string(key.description),
            ]
        )
    }

    /// Deletes the entries of an original and its renditions that differ from what was just made without the cache, so
    /// that later jobs do not bring the former images back.
    ///
    /// - Parameters:
    ///   - original: key of the original, which differs if its validators do, or if there are none.
    ///   - renditions: keys of the renditions, with the SHA-256 of the new ones.
    package func supersede(
        _ original: CacheKey,
        _ renditions: [(key: CacheKey, sha256: String)],
        by version: OriginalVersion
    ) async {
        let new = Dictionary(renditions.map { ($0.key, $0.sha256) }, uniquingKeysWith: { first, _ in first })
        let keys = [original] + new.keys
        let present = await cache.nodes.perform(keys, by: \.digest) { [self] node, keys in
            await headers(of: keys, at: node)
        }
        let outdated = zip(keys, present).filter { key, header in
            // Also a key without an entry: a flight that began before may be about to store one.
            guard let header else { return true }
            return key == original ? !version.isSame(as: header.metadata) : header.sha256 != new[key]
        }
        await supersede(outdated.map(\.0), at: version.fetched)
    }

    /// The headers of entries; nil for those that cannot be read.
    private func headers(of keys: [CacheKey], at node: CacheNodes.Node) async -> [CacheEntry.Header?] {
        do {
            let replies = try await node.redis.pipeline(keys.map { ["HGET", .string(CacheKeys.entry($0)), "m"] })
            return replies.map { $0.buffer.flatMap { CacheEntry.Header(json: $0) } }
        } catch {
            statistics?.add("cache_errors", 1)
            logger.debug("cannot read cache entries", metadata: [LogKey.error: "\(error)"])
            return keys.map { _ in nil }
        }
    }
}
