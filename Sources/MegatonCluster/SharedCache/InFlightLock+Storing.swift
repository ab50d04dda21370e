internal import Foundation
internal import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

// Writes of entries to the cache: the bytes first, then the end of the flight, in one round trip unless the entry is
// large.
extension InFlightLock {
    /// Minimum time for which an entry with a validator is kept beyond its freshness, seconds: many batches are
    /// repeated once a week.
    private static let shortestRetention: Double = 8 * 24 * 3600
    /// How long a fetch is remembered, so that the next one stores the original. A touch costs 136 bytes in Redis,
    /// where a Bloom filter would need 4; in return there is none to be sized, rotated and kept in one piece, no
    /// original is uploaded by mistake (which costs more than these bytes if one in 5,000 is), and a touch lies beside
    /// its flight, so that one script reads both, in a cluster too. The renditions of a photo have a hundred times as
    /// many bytes.
    private static let touchLifetime: Duration = .seconds(48 * 3600)
    /// Largest entry that goes through the script that ends the flight, bytes. A larger one is written to a temporary
    /// key first, in the same round trip: Lua would copy it twice.
    private static let scriptLimit = 8 * 1024

    /// Whether an entry is the lead's stale one with other metadata, so that its bytes in Redis need not be sent again.
    static func hasBytes(of lead: SingleFlight.Leader, entry: CachedData?) -> Bool {
        entry?.checksum != nil && entry?.checksum == lead.stale?.checksum
    }

    func isKeepable(_ entry: CachedData) -> Bool {
        !entry.isPart && entry.data.count <= cache.configuration.maximumEntrySize
    }

    /// Ends the flight of an original that is stored only if it is needed again, if it is not.
    ///
    /// - Returns: the reply of the script; nil if the entry is to be stored.
    func touched(_ entry: CachedData?, of lead: SingleFlight.Leader, token: Int) async throws(RedisError) -> String? {
        // An original with an earlier entry was needed before.
        guard let entry, entry.isStoredIfReused, lead.key.kind == .original, lead.stale == nil, !lead.isUnlocked else {
            return nil
        }
        let reply = try await cache.nodes[lead.key].redis.run(
            FlightScripts.touchOriginal,
            keys: [CacheKeys.flight(lead.key), CacheKeys.negative(lead.key), CacheKeys.touch(lead.key)],
            arguments: [.string(owner), .int(token), .int(Self.touchLifetime.wholeMilliseconds)]
        )
        return reply.string == "store" ? nil : reply.string ?? ""
    }

    func store(_ entry: CachedData?, as lead: SingleFlight.Leader, token: Int) async throws -> String {
        let node = cache.nodes[lead.key]
        let temporary = CacheKeys.temporary(lead.key, token: token)
        let kept = entry.flatMap { isKeepable($0) ? $0 : nil }
        if let kept, Self.hasBytes(of: lead, entry: kept) {
            let reply = try await confirm(kept, as: lead, token: token)
            // Otherwise Redis has evicted it meanwhile, and gets its bytes again.
            if reply != "torn" { return reply }
        }
        var keep: RedisArgument = "0"
        var pieces: [RedisArgument] = []
        var before: [RedisCommand] = []
        if let kept {
            let chunks = CacheEntry.chunks(of: kept.data)
            if kept.data.count > Self.scriptLimit {
                keep = "2"
                let last = chunks.suffix((chunks.count - 1) % RedisDataCache.chunksAtOnce + 1)
                if last.count < chunks.count {
                    try await cache.writeChunks(Array(chunks.dropLast(last.count)), to: temporary, at: node)
                }
                before = RedisDataCache.writing(last, to: temporary)
            } else {
                keep = "1"
                pieces = chunks.map { .buffer($0) }
            }
            statistics?.add("bytes_in", kept.data.count)
        }
        let header = try kept.map { try encodedHeader(of: $0, for: lead.key) } ?? Data()
        let count = kept.map { CacheEntry.chunkCount($0.data.count) } ?? 0
        var arguments: [RedisArgument] = [.string(owner), .int(token), keep]
        arguments += times(kept?.metadata)
        arguments += [.buffer(ByteBuffer(bytes: header)), .string(CacheKeys.landing(lead.key))]
        arguments += [.string(lead.key.description), .string(CacheKeys.deletions), .int(count)]
        let keys = [
            CacheKeys.entry(lead.key), CacheKeys.flight(lead.key), temporary, CacheKeys.negative(lead.key),
        ]
        let replies = try await node.redis.run(
            FlightScripts.finishFlight,
            after: before,
            calls: [(keys, arguments + pieces)]
        )
        // The replies to the chunk writes name the cause: without the chunks the script has ended the flight as torn.
        try RedisDataCache.check(replies.commands)
        try RedisDataCache.check(replies.calls)
        return replies.calls[0].string ?? ""
    }

    /// Ends the flight of an entry that the origin has confirmed: Redis has its bytes, and gets its new metadata, also
    /// if it is full.
    private func confirm(_ entry: CachedData, as lead: SingleFlight.Leader, token: Int) async throws -> String {
        let header = try encodedHeader(of: entry, for: lead.key)
        var arguments: [RedisArgument] = [.string(owner), .int(token)]
        arguments += times(entry.metadata)
        arguments += [
            .buffer(ByteBuffer(bytes: header)), .string(CacheKeys.landing(lead.key)),
            .string(lead.key.description), .string(CacheKeys.deletions), .string(entry.checksum ?? ""),
        ]
        let reply = try await cache.nodes[lead.key].redis.run(
            FlightScripts.confirmFlight,
            keys: [CacheKeys.entry(lead.key), CacheKeys.flight(lead.key), CacheKeys.negative(lead.key)],
            arguments: arguments
        )
        return reply.string ?? ""
    }

    private func encodedHeader(of entry: CachedData, for key: CacheKey) throws -> Data {
        let now = Date().timeIntervalSince1970
        return try CacheEntry.header(of: entry, isRendition: key.kind == .rendition, stored: now)
    }

    /// Milliseconds until Redis deletes an entry, until it is stale, and until it is no longer served while it is
    /// revalidated.
    private func times(_ metadata: CachedData.Metadata?) -> [RedisArgument] {
        guard let metadata else { return ["0", "0", "0"] }
        let fresh = Self.bounded(metadata.lifetime)
        let (served, onError) = (Self.bounded(metadata.staleWhileRevalidate), Self.bounded(metadata.staleIfError))
        // A validator is useful as long as the origin may still know it, and that time is unknown.
        let hasValidator = metadata.etag != nil || metadata.lastModified != nil
        let asked = hasValidator ? max(fresh, Self.shortestRetention) : 0
        let kept = Duration.seconds(fresh + max(served, onError, asked)).wholeMilliseconds
        return [
            .int(min(cache.configuration.lifetime.wholeMilliseconds, max(1, kept))),
            .int(Duration.seconds(fresh).wholeMilliseconds), .int(Duration.seconds(fresh + served).wholeMilliseconds),
        ]
    }
    /// Seconds of a cache entry, limited to a century so that they can be counted in milliseconds.
    private static func bounded(_ seconds: Double?) -> Double { min(max(0, seconds ?? 0), 100 * 365 * 24 * 3600) }
}
