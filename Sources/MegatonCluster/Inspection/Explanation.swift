internal import Foundation
package import Logging
internal import MegatonCore
package import MegatonPipeline
package import MegatonRedis
internal import NIOCore

/// The state of a source in a cluster: its entries in the shared cache, what would be done for a job, and its host.
package struct Explanation: Sendable, Codable, Equatable {
    /// The nearest cache that has an entry, of those that were examined.
    package enum Tier: String, Sendable, Codable {
        /// The disk cache of the workers of this machine, whose copy they trust.
        case localCache = "local_cache"
        /// The shared cache, whether its entry is fresh or not.
        case sharedCache = "shared_cache"
        case none
    }

    /// The state of one cache key.
    package struct Item: Sendable, Codable, Equatable {
        /// `original`, or the name of a rendition.
        package var name: String
        package var key: String
        package var tier = Tier.none
        /// The copy in the disk cache of this machine; nil if there is none, or it was not examined.
        package var copy: NearCacheCopy?
        /// Address of the server that has the key, without user and password.
        package var server: String
        /// Nil if there is none.
        package var entry: CacheListing.Entry?
        package var failure: Failure?
        package var flight: Flight?
        /// Clause on what the next job would do.
        package var next: String
        /// The engine that would render; nil for the original.
        package var engine: EngineForecast?
    }

    /// A failure that the cache remembers.
    package struct Failure: Sendable, Codable, Equatable {
        package var code: String
        package var message: String
        /// Seconds until it is forgotten.
        package var left: Double
        /// Whether it answers requests of any kind, as its origin forbade further ones for now.
        package var isBinding: Bool
    }

    /// A fetch or a render under way.
    package struct Flight: Sendable, Codable, Equatable {
        /// The process that leads it.
        package var owner: String
        /// Seconds until its lease ends unless it is renewed.
        package var left: Double
        package var hasWaiters: Bool
    }

    /// The limits of a host, as far as they are not the usual ones.
    package struct Host: Sendable, Codable, Equatable {
        /// `host:port`.
        package var name: String
        /// Number of requests under way.
        package var fetching: Int
        /// Fraction of the limits that the host gets at present.
        package var factor: Double
        /// Seconds until the next request, because the host asked for that (Retry-After).
        package var blockedFor: Double
        /// Seconds until the circuit breaker lets a request through.
        package var openFor: Double
        /// Number of consecutive failures.
        package var failures: Int
    }

    /// URL without user, password and query.
    package var url: String
    package var original: Item
    package var renditions: [Item]
    /// Path of the disk cache that was examined; nil if none was.
    package var localCache: String?
    /// Nil if the source has no host of its own, as with `s3:`, or if nothing is known of it.
    package var host: Host?
}

extension Explanation {
    /// The states of keys in the cache, read without a change.
    struct Reader {
        let nodes: CacheNodes

        func item(_ name: String, _ key: CacheKey) async throws(RedisError) -> Item {
            let redis = nodes[key].redis
            let negative = RedisArgument.string(CacheKeys.negative(key))
            let flight = RedisArgument.string(CacheKeys.flight(key))
            let entry = try await CacheListing.entries([CacheKeys.entry(key)], at: redis).first
            let replies = try await redis.pipeline([
                ["GET", negative], ["PTTL", negative], ["HMGET", flight, "o", "w"], ["PTTL", flight],
            ])
            for case .error(let text) in replies { throw RedisError(reply: text) }
            guard replies.count == 4 else { throw JobQueue.unexpected("GET") }
            let fields = replies[2].array ?? []
            var item = Item(name: name, key: key.description, server: "\(redis.configuration)", entry: entry, next: "")
            if entry != nil { item.tier = .sharedCache }
            let failure = RememberedFailure(replies[0])
            item.failure = failure.map { failure in
                Failure(
                    code: failure.error.code.rawValue,
                    message: failure.error.message,
                    left: Double(max(0, replies[1].int ?? 0)) / 1000,
                    isBinding: failure.kind == .binding
                )
            }
            item.flight = fields.first?.string.map { owner in
                Flight(
                    owner: owner,
                    left: Double(max(0, replies[3].int ?? 0)) / 1000,
                    hasWaiters: fields.last?.string == "1"
                )
            }
            item.next = Self.next(item, after: failure?.error)
            return item
        }

        /// The beginning of an original in the cache, which has its header; nil if there is none.
        func beginning(of original: CacheKey) async throws(RedisError) -> Data? {
            let reply = try await nodes[original].redis.send(["HGET", .string(CacheKeys.entry(original)), "0"])
            return reply.buffer.map { Data($0.readableBytesView) }
        }

        /// - Parameter error: the remembered failure; nil if there is none.
        static func next(_ item: Item, after error: ImagePipeline.Error?) -> String {
            let isOriginal = item.entry.map { $0.kind == .original } ?? item.key.hasPrefix("o")
            if let entry = item.entry, entry.freshFor > 0 { return "it is fresh and answers jobs" }
            if let error {
                let code = error.code.rawValue
                if let directive = item.entry.flatMap({ servingDirective(of: $0, after: error) }) {
                    return "it is stale and answers jobs in place of the failure \(code) (\(directive))"
                }
                return "jobs fail as \(code), without asking the origin"
            }
            if let entry = item.entry, !isOriginal, entry.freshFor + (entry.staleWhileRevalidate ?? 0) > 0 {
                return "it is stale and answers jobs while it is revalidated (stale-while-revalidate)"
            }
            if let flight = item.flight { return "jobs wait for \(flight.owner)" }
            guard let entry = item.entry else { return isOriginal ? "it is fetched" : "it is rendered" }
            let hasValidator = entry.etag != nil || entry.lastModified != nil
            let way = hasValidator ? "the origin is asked whether it is still valid" : "it has no validator"
            let end = hasValidator ? "" : isOriginal ? " and is fetched again" : " and is rendered again"
            return "it is stale: \(way)\(end)"
        }

        /// The directive by which a stale entry answers jobs although a failure is remembered; nil if it does not. As
        /// `InFlightLock` decides at a lookup.
        private static func servingDirective(
            of entry: CacheListing.Entry,
            after error: ImagePipeline.Error
        ) -> String? {
            if entry.freshFor + (entry.staleWhileRevalidate ?? 0) > 0 { return "stale-while-revalidate" }
            let isServed = error.isOriginFailure && entry.freshFor + (entry.staleIfError ?? 0) > 0
            return isServed ? "stale-if-error" : nil
        }
    }

    /// Reads the state of a source, and changes nothing.
    ///
    /// - Parameters:
    ///   - request: the source, with its credential.
    ///   - engine: the engine that `--engine` of the workers names; part of the keys.
    ///   - caches: the servers of the cache, all of them.
    package static func read(
        _ request: ImageRequest,
        _ renditions: [Rendition],
        engine: RenderEngineChoice = .auto,
        queue: ShardedQueue,
        caches: [RedisClient],
        logger: Logger
    ) async throws(RedisError) -> Explanation {
        let reader = Reader(nodes: CacheNodes(caches, logger: logger, statistics: nil))
        let key = CacheKey.original(of: request)
        let original = try await reader.item("original", key)
        let beginning = original.entry == nil ? nil : try await reader.beginning(of: key)
        var items: [Item] = []
        for rendition in renditions {
            var item = try await reader.item(rendition.name, key.rendition(rendition, by: engine))
            item.engine = EngineForecast(rendition, of: beginning, choice: engine)
            items.append(item)
        }
        return Explanation(
            url: request.url?.redacted ?? "",
            original: original,
            renditions: items,
            host: try await host(of: request.url, in: queue)
        )
    }

    /// The same with the copies in the disk cache of this machine's workers, which are read without a change. Blocks.
    ///
    /// - Parameters:
    ///   - folder: path of the disk cache.
    ///   - trust: how long a worker trusts a copy before it asks the shared cache again.
    /// - Throws: `.accessDenied` if the file of a copy cannot be read.
    package func examining(
        localCache folder: String,
        trustedFor trust: Duration
    ) throws(ImagePipeline.Error) -> Explanation {
        var explanation = self
        explanation.localCache = folder
        try explanation.original.addCopy(in: folder, trustedFor: trust)
        for index in renditions.indices {
            try explanation.renditions[index].addCopy(in: folder, trustedFor: trust)
        }
        return explanation
    }

    private static func host(of url: URL?, in queue: ShardedQueue) async throws(RedisError) -> Host? {
        // Only the workers know the host of an `s3:` source.
        guard let url, ["http", "https"].contains(url.scheme?.lowercased()) else { return nil }
        let name = OriginHost.name(of: url)
        let number = HostLimiters.shard(of: name, count: queue.shards.count)
        let shard = queue.shards[number]
        let now = try await shard.milliseconds()
        let stored = try await shard.redis.send(["HGET", .string(shard.keys.rate), .string(name)]).string ?? ""
        let busy = try await shard.redis.send([
            "ZCOUNT", .string(shard.keys.fetching(name)), .string("\(Int(now))"), "+inf",
        ])
        guard let state = HostState(name, stored: stored, now: now) else { return nil }
        return Host(
            name: name,
            fetching: busy.int ?? 0,
            factor: state.factor,
            blockedFor: state.blockedFor,
            openFor: state.openFor,
            failures: state.failures
        )
    }
}

extension Explanation.Item {
    fileprivate mutating func addCopy(in folder: String, trustedFor trust: Duration) throws(ImagePipeline.Error) {
        guard let kind = CacheKey.Kind(rawValue: String(key.prefix { $0 != ":" })) else { return }
        copy = try NearCacheCopy.read(CacheKey(kind, digest: String(key.dropFirst(2))), in: folder)
        if let copy, copy.freshFor > 0, copy.age < trust.inSeconds { tier = .localCache }
    }
}
