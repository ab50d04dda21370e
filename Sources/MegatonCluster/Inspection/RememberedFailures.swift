package import Foundation
internal import MegatonPipeline
package import MegatonRedis

/// Clears remembered failures of a cluster, for example after an origin was repaired.
package struct RememberedFailures: Sendable {
    private let caches: [RedisClient]
    private let queue: ShardedQueue

    /// Number of keys read in one round trip.
    private static let page = 1000
    /// How often a scan begins again because a master of a Redis Cluster was replaced.
    private static let maximumRestarts = 5

    /// Creates an editor of remembered failures.
    ///
    /// - Parameters:
    ///   - caches: the Redis servers that hold the failures.
    ///   - queue: the queue that holds the states of hosts.
    package init(caches: [RedisClient], queue: ShardedQueue) {
        self.caches = caches
        self.queue = queue
    }

    package init(caches: [RedisClient], queue: JobQueue) { self.init(caches: caches, queue: ShardedQueue(queue)) }

    /// Forgets all failures, and the states of all hosts: Retry-After, open circuits and lowered limits. Jobs that wait
    /// for them have their turn.
    ///
    /// - Returns: the number of failures forgotten.
    package func forget() async throws(RedisError) -> Int {
        _ = try await queue.forEach { (shard) async throws(RedisError) in
            try await shard.redis.send(["UNLINK", .string(shard.keys.rate)])
        }
        try await endWaits { _ in true }
        return try await forget { _ in true }
    }

    /// Forgets the failures of some sources, and the states of hosts.
    ///
    /// - Parameters:
    ///   - urls: with any user, password and query.
    ///   - hosts: `host` with any port, or `host:port`, in any spelling.
    /// - Returns: the number of failures forgotten.
    package func forget(urls: [URL], hosts: [String]) async throws(RedisError) -> Int {
        let urls = Set(urls.map(ImagePipeline.Error.withoutQuery))
        let hosts = Set(hosts.map(OriginHost.named))
        try await forgetStates(of: hosts)
        return try await forget { url in
            guard let url else { return false }
            return urls.contains(url) || (URL(string: url).map { Self.isAt($0, of: hosts) } ?? false)
        }
    }

    /// Forgets the failures of some sources. The states of hosts stay.
    ///
    /// - Parameter isMeant: receives the source's URL without its query; nil for a source that has none.
    /// - Returns: the number of failures forgotten.
    func forgetSources(where isMeant: (String?) -> Bool) async throws(RedisError) -> Int { try await forget(isMeant) }

    /// Counts the failures of some sources.
    ///
    /// - Parameter isMeant: receives the source's URL without its query; nil for a source that has none.
    func countSources(where isMeant: (String?) -> Bool) async throws(RedisError) -> Int {
        try await forget(isMeant, isDryRun: true)
    }

    /// - Parameters:
    ///   - isMeant: receives the source's URL without its query; nil for a source that has none.
    ///   - isDryRun: whether failures are only counted.
    /// - Throws: after all other servers, the error of one that could not be changed.
    private func forget(_ isMeant: (String?) -> Bool, isDryRun: Bool = false) async throws(RedisError) -> Int {
        var (forgotten, failure): (Int, RedisError?) = (0, nil)
        for cache in caches {
            do throws(RedisError) {
                forgotten += try await forget(at: cache, isMeant, isDryRun)
            } catch {
                failure = failure ?? error
            }
        }
        guard let failure else { return forgotten }
        if caches.count == 1 || isDryRun { throw failure }
        throw RedisError(
            failure.code,
            "Not all servers of the cache could be changed (\(forgotten) failures were forgotten on the others): "
                + "\(failure.message) Run the command again when it answers."
        )
    }

    private func forget(
        at cache: RedisClient,
        _ isMeant: (String?) -> Bool,
        _ isDryRun: Bool
    ) async throws(RedisError) -> Int {
        var (forgotten, restarts) = (0, 0)
        while true {
            do throws(RedisError) {
                try await forget(at: cache, isMeant, isDryRun, count: &forgotten)
                return forgotten
            } catch {
                guard error.endsScan, restarts < Self.maximumRestarts, !Task.isCancelled else { throw error }
                restarts += 1
                // The next scan finds them again.
                if isDryRun { forgotten = 0 }
            }
        }
    }

    /// - Parameter forgotten: grows by the number of failures forgotten, also if the scan fails.
    private func forget(
        at cache: RedisClient,
        _ isMeant: (String?) -> Bool,
        _ isDryRun: Bool,
        count forgotten: inout Int
    ) async throws(RedisError) {
        var cursor = "0"
        repeat {
            let reply = try await cache.send([
                "SCAN", .string(cursor), "MATCH", .string(CacheKeys.patternOfNegatives), "COUNT", .int(Self.page),
            ])
            let parts = reply.array ?? []
            cursor = parts.first?.string ?? "0"
            let names = (parts.last?.array ?? []).compactMap(\.string)
            if names.isEmpty { continue }
            let values = try await cache.pipeline(names.map { ["GET", .string($0)] })
            // The `uncacheable` mark is not a failure.
            let meant = zip(names, values).compactMap { name, value in
                RememberedFailure(value).flatMap { isMeant($0.error.url) ? name : nil }
            }
            if isDryRun {
                forgotten += meant.count
            } else if !meant.isEmpty {
                // One command for each, because they are in different slots of a Redis Cluster.
                let replies = try await cache.pipeline(meant.map { ["UNLINK", .string($0)] })
                forgotten += replies.reduce(0) { $0 + ($1.int ?? 0) }
                for case .error(let text) in replies { throw RedisError(reply: text) }
            }
        } while cursor != "0"
    }

    private func forgetStates(of hosts: Set<String>) async throws(RedisError) {
        if hosts.isEmpty { return }
        _ = try await queue.forEach { (shard) async throws(RedisError) in
            let rate = RedisArgument.string(shard.keys.rate)
            // At most 50,000 hosts.
            let known = try await shard.redis.send(["HKEYS", rate]).array ?? []
            let meant = known.compactMap(\.string).filter { OriginHost.isAmong($0, of: hosts) }
            if !meant.isEmpty { try await shard.redis.send(RedisCommand(["HDEL", rate] + meant.map { .string($0) })) }
        }
        try await endWaits { OriginHost.isAmong($0, of: hosts) }
    }

    /// Called when all shards have forgotten the states: the jobs of a host may be in other shards than its state.
    private func endWaits(of isMeant: @Sendable (String) -> Bool) async throws(RedisError) {
        for shard in queue.shards { try await Self.endWaits(in: shard, of: isMeant) }
    }

    /// Lets held jobs of hosts have their turn now: it was that of the Retry-After or of the next probe.
    private static func endWaits(in shard: JobQueue, of isMeant: (String) -> Bool) async throws(RedisError) {
        let held = RedisArgument.string(shard.keys.held)
        // At most as many hosts as jobs are held; the queue stops to read intakes before they are too many.
        let hosts = (try await shard.redis.send(["ZRANGE", held, "0", "-1"]).array ?? []).compactMap(\.string)
        let meant = hosts.filter(isMeant)
        if meant.isEmpty { return }
        let time = (try await shard.redis.send(["TIME"]).array ?? []).compactMap { $0.string.flatMap { Int($0) } }
        guard let seconds = time.first else { throw JobQueue.unexpected("TIME") }
        for start in stride(from: 0, to: meant.count, by: page) {
            let turns = meant[start..<min(start + page, meant.count)].flatMap {
                [RedisArgument.int(seconds * 1000), .string($0)]
            }
            try await shard.redis.send(RedisCommand(["ZADD", held, "XX", "LT"] + turns))
        }
        try await shard.passTokenOn()
    }

    private static func isAt(_ url: URL, of hosts: Set<String>) -> Bool {
        OriginHost.isAmong(OriginHost.name(of: url), of: hosts)
    }
}
