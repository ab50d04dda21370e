internal import Foundation
internal import MegatonPipeline
package import MegatonRedis

/// Reads the entries of a shared cache: keys by SCAN, and the header of each original and rendition, in steps of a
/// bounded size. It takes a few seconds for each million keys and delays nothing else, as each step is short.
package struct CacheListing: Sendable {
    /// An original or a rendition in the cache.
    package struct Entry: Sendable, Codable, Equatable {
        /// The content of an entry.
        package enum Kind: String, Sendable, Codable {
            case original, rendition
        }

        package var kind: Kind
        /// The cache key: a letter for the kind, and a digest.
        package var key: String
        /// URL of the original without its query. Nil if an earlier version stored the entry, which did not note it.
        package var source: String?
        /// The name under which a rendition was made.
        package var rendition: String?
        /// The media type.
        package var type: String?
        /// Pixels of a rendition.
        package var width: Int?
        package var height: Int?
        /// Size of the data.
        package var bytes: Int
        /// Seconds since the origin created or confirmed the response (RFC 9111 section 4.2.3).
        package var age: Double
        /// Seconds for which the entry is still fresh; negative since it is stale.
        package var freshFor: Double
        /// Seconds for which the stale entry answers jobs while it is revalidated; nil if its origin did not allow
        /// that.
        package var staleWhileRevalidate: Double?
        /// Seconds for which the stale entry answers jobs in place of an origin's error; nil if its origin did not
        /// allow that.
        package var staleIfError: Double?
        /// The validators of the original.
        package var etag: String?
        package var lastModified: String?
        /// Address of the server, without user and password.
        package var server: String
        /// How often it was read lately, on the logarithmic scale of Redis; nil if it was not asked for.
        package var hits: Int?

        /// The key of the HASH in Redis.
        package var name: String { CacheKeys.entry(cacheKey) }

        /// The cache key.
        var cacheKey: CacheKey {
            CacheKey(kind == .original ? .original : .rendition, digest: String(key.dropFirst(2)))
        }
    }

    private let caches: [RedisClient]

    /// Number of keys read in one step.
    private static let page = 500
    /// How often a scan begins again because a master of a Redis Cluster was replaced.
    private static let maximumRestarts = 5

    /// - Parameter caches: the servers of the cache.
    package init(caches: [RedisClient]) { self.caches = caches }

    /// Calls the body with the entries of all servers, page by page. If a server of a Redis Cluster is replaced
    /// meanwhile, entries may come twice.
    ///
    /// - Parameter body: receives the server, its entries, and the number of all keys of the page.
    /// - Throws: after all other servers, the error of one that could not be read.
    package func forEachPage(
        _ body: (RedisClient, [Entry], Int) async throws(RedisError) -> Void
    ) async throws(RedisError) {
        var failure: RedisError?
        for cache in caches {
            do throws(RedisError) {
                try await forEachPage(at: cache, body)
            } catch {
                failure = failure ?? error
            }
        }
        guard let failure else { return }
        if caches.count == 1 { throw failure }
        throw RedisError(
            failure.code,
            "Not all servers of the cache could be read: \(failure.message) The others were; run the command again "
                + "when it answers."
        )
    }

    private func forEachPage(
        at cache: RedisClient,
        _ body: (RedisClient, [Entry], Int) async throws(RedisError) -> Void
    ) async throws(RedisError) {
        var restarts = 0
        while true {
            do throws(RedisError) {
                return try await scan(cache, body)
            } catch {
                guard error.endsScan, restarts < Self.maximumRestarts, !Task.isCancelled else { throw error }
                restarts += 1
            }
        }
    }

    private func scan(
        _ cache: RedisClient,
        _ body: (RedisClient, [Entry], Int) async throws(RedisError) -> Void
    ) async throws(RedisError) {
        var cursor = "0"
        repeat {
            let reply = try await cache.send([
                "SCAN", .string(cursor), "MATCH", "megaton:[or]:{*", "COUNT", .int(Self.page),
            ])
            guard let parts = reply.array, parts.count == 2, let next = parts[0].string else {
                throw JobQueue.unexpected("SCAN")
            }
            cursor = next
            let names = (parts[1].array ?? []).compactMap(\.string)
            if names.isEmpty { continue }
            try await body(cache, try await Self.entries(names, at: cache), names.count)
        } while cursor != "0"
    }

    /// Reads the entries with these keys in Redis; those that are gone meanwhile, or cannot be read, are left out.
    static func entries(_ names: [String], at cache: RedisClient) async throws(RedisError) -> [Entry] {
        let replies = try await cache.pipeline(names.map { ["HMGET", .string($0), "m", "x"] })
        let now = Date()
        var entries: [Entry] = []
        for (name, reply) in zip(names, replies) {
            if case .error(let text) = reply {
                let error = RedisError(reply: text)
                // A key of another type is not the cache's.
                if error.isWrongType { continue }
                throw error
            }
            guard let fields = reply.array, fields.count == 2, let json = fields[0].buffer,
                let header = CacheEntry.Header(json: json)
            else { continue }
            let until = Double(fields[1].string ?? "") ?? 0
            entries.append(Entry(name, header, freshUntil: until / 1000, at: now, server: "\(cache.configuration)"))
        }
        return entries
    }
}

extension CacheListing.Entry {
    /// - Parameters:
    ///   - name: the key of the HASH, `megaton:o:{digest}` or `megaton:r:{digest}`.
    ///   - freshUntil: seconds since 1970 by the clock of Redis.
    init(_ name: String, _ header: CacheEntry.Header, freshUntil: Double, at now: Date, server: String) {
        let letter = name.dropFirst("megaton:".count).prefix(1)
        let metadata = header.metadata
        kind = letter == "o" ? .original : .rendition
        key = "\(letter):" + name.drop { $0 != "{" }.dropFirst().prefix { $0 != "}" }
        source = metadata.source
        rendition = metadata.rendition
        type = metadata.type
        width = metadata.width
        height = metadata.height
        bytes = header.length
        age = metadata.currentAge(at: now)
        freshFor = freshUntil - now.timeIntervalSince1970
        staleWhileRevalidate = metadata.staleWhileRevalidate
        staleIfError = metadata.staleIfError
        etag = metadata.etag
        lastModified = metadata.lastModified
        self.server = server
    }
}
