internal import Foundation
internal import MegatonPipeline
package import MegatonRedis

/// Reads the state of a queue and its cache, and changes nothing.
package struct Inspector: Sendable {
    let queue: ShardedQueue
    let caches: [RedisClient]

    /// Maximum number of workers of a shard in one status.
    private static let shown = 1000
    /// Milliseconds for which a coordinator is shown after its last attempt to lead.
    private static let coordinatorsAge: Double = 60_000

    package init(queue: JobQueue, cache: RedisClient) { self.init(queue: queue, caches: [cache]) }

    package init(queue: ShardedQueue, cache: RedisClient) { self.init(queue: queue, caches: [cache]) }

    package init(queue: JobQueue, caches: [RedisClient]) { self.init(queue: ShardedQueue(queue), caches: caches) }

    /// - Parameter caches: the servers of the shared cache.
    package init(queue: ShardedQueue, caches: [RedisClient]) {
        self.queue = queue
        self.caches = caches
    }

    // MARK: - Status

    /// The state of the queue, summed over its shards. Those that do not answer are left out and named.
    ///
    /// - Parameter skipsDamage: whether keys of another type than theirs count as empty and are named. Otherwise they
    ///   are an error: an operator may be shown a part of the state, and a process must not act on it.
    /// - Throws: if no shard answers, or one refuses to.
    package func status(skipsDamage: Bool = false) async throws(RedisError) -> ClusterStatus {
        if !queue.isDivided { return try await Self.status(queue.first, skipsDamage) }
        let results = await queue.results { (shard) async throws(RedisError) in
            try await Self.status(shard, skipsDamage)
        }
        var status = ClusterStatus()
        var (parts, failure): ([ClusterStatus.Shard], RedisError?) = ([], nil)
        for (shard, result) in zip(queue.shards, results) {
            var part = ClusterStatus.Shard(number: shard.keys.shard, address: "\(shard.redis.configuration)")
            switch result {
            case .success(let own):
                part.describe(own)
                status.add(own)
            case .failure(let error):
                guard error.isTransient else { throw error }
                failure = error
                part.isReachable = false
            }
            parts.append(part)
        }
        if let failure, !parts.contains(where: \.isReachable) { throw failure }
        status.finish(parts)
        return status
    }

    /// Checks replies for errors.
    ///
    /// - Returns: whether a key has another type than its own.
    /// - Throws: any other error, and that one too unless it is skipped.
    private static func check(_ replies: [RedisValue], _ skipsDamage: Bool) throws(RedisError) -> Bool {
        var isDamaged = false
        for case .error(let text) in replies {
            let error = RedisError(reply: text)
            guard skipsDamage, error.isWrongType else { throw error }
            isDamaged = true
        }
        return isDamaged
    }

    private static func status(_ queue: JobQueue, _ skipsDamage: Bool) async throws(RedisError) -> ClusterStatus {
        let keys = queue.keys
        let lookups = try await queue.redis.pipeline([
            ["GET", .string(keys.epoch)], ["ZRANGE", .string(keys.intakes), "0", "-1"],
            ["HGETALL", .string(keys.workerInfo)],
        ])
        guard lookups.count == 3 else { throw JobQueue.unexpected("status") }
        var isDamaged = try check(lookups, skipsDamage)
        let epoch = lookups[0].int ?? 0
        let intakes = (lookups[1].array ?? []).compactMap(\.string)
        let commands: [RedisCommand] =
            ([keys.stage(epoch: epoch)] + keys.ready + Job.Priority.allCases.map(keys.jobs)
            + intakes.map(keys.jobs(batch:))).map {
                ["LLEN", .string($0)]
            } + [keys.lease, keys.delay, keys.dead, keys.batches].map { ["ZCARD", .string($0)] } + [
                ["HGETALL", .string(keys.stat)], ["GET", .string(keys.leader)], ["TIME"],
                // Those that were heard last: dead ones must not take the place of living ones.
                ["ZRANGE", .string(keys.workers), "0", .int(Self.shown - 1), "REV", "WITHSCORES"],
                ["HGETALL", .string(keys.control)],
                ["EXISTS", .string(keys.jobs), .string(keys.epoch), .string(keys.workers), .string(keys.stat)],
                ["LLEN", .string(keys.suspects)], ["ZCARD", .string(keys.holding)], ["ZCARD", .string(keys.held)],
                ["ZRANGE", .string(keys.coordinators), "0", "-1", "WITHSCORES"],
                ["HGET", .string(keys.heldBytes), "bytes"], ["ZRANGE", .string(keys.lease), "0", "0", "WITHSCORES"],
            ]
        let replies = try await queue.redis.pipeline(commands)
        if try check(replies, skipsDamage) { isDamaged = true }
        guard replies.count == commands.count else { throw JobQueue.unexpected("status") }
        let lists = 7 + intakes.count
        var status = ClusterStatus()
        status.staged = replies[0].int ?? 0
        status.ready = replies[1...3].reduce(0) { $0 + ($1.int ?? 0) } + (replies[lists + 10].int ?? 0)
        status.intake = replies[4..<lists].reduce(0) { $0 + ($1.int ?? 0) }
        status.publicIntake = Dictionary(
            uniqueKeysWithValues: zip(Job.Priority.allCases, replies[4..<7].map { $0.int ?? 0 })
        )
        status.running = replies[lists].int ?? 0
        status.delayed = replies[lists + 1].int ?? 0
        status.dead = replies[lists + 2].int ?? 0
        status.held = replies[lists + 11].int ?? 0
        status.heldHosts = replies[lists + 12].int ?? 0
        status.unreadIntakes =
            WaitingLimits().step(jobs: status.held + status.delayed, bytes: replies[lists + 14].int ?? 0)?.rawValue
        status.batches = replies[lists + 3].int ?? 0
        let stat = replies[lists + 4].dictionary.compactMapValues(Int.init)
        status.done = stat["done"] ?? 0
        status.failed = stat["failed"] ?? 0
        status.cancelled = stat["cancelled"] ?? 0
        status.retried = stat["retried"] ?? 0
        status.stalled = stat["stalled"] ?? 0
        status.leader = replies[lists + 5].string
        let time = replies[lists + 6].array?.compactMap(\.int) ?? [0, 0]
        status.isKnown = (replies[lists + 9].int ?? 0) + intakes.count > 0
        status.pauses = replies[lists + 8].dictionary.filter { $0.value == "1" }.keys.sorted()
        let now = time[0] * 1000 + time[1] / 1000
        let expiry = replies[lists + 15].dictionary.values.first.flatMap(Double.init)
        status.overdueLease = expiry.map { max(0, Double(now) - $0) / 1000 } ?? 0
        status.workers = workers(replies[lists + 7].dictionary, lookups[2].dictionary, now: now)
        status.coordinators = replies[lists + 13].dictionary
            .filter { (Double($0.value) ?? 0) > Double(now) - Self.coordinatorsAge }.keys.sorted()
            .compactMap(ClusterStatus.Coordinator.init)
        status.former = try await queue.former().parts
        if isDamaged { status.damagedKeys = try await KeyTypes(queue).damaged() }
        return status
    }

    /// The workers, by their last heartbeats and the descriptions of themselves.
    ///
    /// - Parameter now: the time of Redis, milliseconds.
    static func workers(
        _ beats: [String: String],
        _ info: [String: String],
        now: Int
    ) -> [ClusterStatus.Worker] {
        beats.keys.sorted().map { name in
            let beat = beats[name].flatMap(Double.init) ?? 0
            let running = info[name]?.split(separator: " ").first.flatMap { Int($0) } ?? 0
            let described = info[name].flatMap { WorkerInfo(stored: $0) }
            return ClusterStatus.Worker(
                name: name,
                running: running,
                silent: max(0, Double(now) - beat) / 1000,
                renewal: described?.renewal ?? WorkerInfo.usualRenewal,
                version: described?.version,
                protocolVersion: described?.protocolVersion,
                places: described?.concurrency,
                problem: described?.problem
            )
        }
    }

    // MARK: - The cache

    /// A server of the shared cache.
    package struct CacheServer: Sendable, Codable, Equatable {
        /// URL without user and password.
        package var address: String
        package var isReachable: Bool
        /// Why it refuses this user, in its own words; nil if it does not.
        package var refusal: String?
    }

    /// Time in which a reachable server answers.
    private static let pingLimit: Duration = .seconds(1)

    /// The servers of the shared cache, and whether they answer.
    package func cacheServers() async -> [CacheServer] {
        await withTaskGroup(of: (Int, CacheServer).self) { group in
            for (index, cache) in caches.enumerated() {
                group.addTask {
                    var server = CacheServer(address: "\(cache.configuration)", isReachable: false)
                    (server.isReachable, server.refusal) = await CacheRefusal.ask(cache, within: Self.pingLimit)
                    return (index, server)
                }
            }
            return await group.reduce(into: []) { $0.append($1) }.sorted { $0.0 < $1.0 }.map(\.1)
        }
    }

    /// Counters and memory of the shared cache, summed over its servers.
    ///
    /// - Parameter budget: time limit for the scan that measures the memory of each kind of key. The scan proceeds in
    ///   small steps, so that it never blocks a server.
    /// - Throws: if the queue, or every server of the cache, cannot be read.
    package func cacheStatistics(budget: Duration = .seconds(2)) async throws(RedisError) -> CacheStatistics {
        var statistics = try await cacheCounters()
        let nodes = await withTaskGroup(of: (Int, Result<CacheStatistics.Node, RedisError>).self) { group in
            for (index, cache) in caches.enumerated() {
                group.addTask { (index, await Self.node(cache, budget)) }
            }
            var all: [(Int, Result<CacheStatistics.Node, RedisError>)] = []
            for await node in group { all.append(node) }
            return all.sorted { $0.0 < $1.0 }.map(\.1)
        }
        var failure: RedisError?
        for (cache, node) in zip(caches, nodes) {
            switch node {
            case .success(let node): statistics.add(node)
            case .failure(let error):
                failure = error
                statistics.add(CacheStatistics.Node(address: "\(cache.configuration)", error: "\(error)"))
            }
        }
        if let failure, !statistics.nodes.contains(where: { $0.error == nil }) { throw failure }
        return statistics
    }

    /// Counters of the shared cache alone, in one round trip to the control Redis.
    package func cacheCounters() async throws(RedisError) -> CacheStatistics {
        // Workers add their counters to shard 0.
        let keys = queue.first.keys
        let replies = try await queue.first.redis.pipeline([
            ["HGETALL", .string(keys.stat)], ["HGETALL", .string(keys.statHosts)],
            ["PFCOUNT", .string(keys.statDistinct)],
        ])
        for case .error(let text) in replies { throw RedisError(reply: text) }
        var statistics = CacheStatistics(counters: replies[0].dictionary.compactMapValues(Int.init))
        statistics.originFetchesByHost = replies[1].dictionary.compactMapValues(Int.init)
        statistics.distinctOriginals = replies[2].int ?? 0
        return statistics
    }

    /// The thumbnails of jobs that have ended lately, the newest first.
    package func recentThumbnails() async throws(RedisError) -> [RecentThumbnail] {
        // Workers add theirs to shard 0, as their counters.
        let reply = try await queue.first.redis.send([
            "LRANGE", .string(queue.first.keys.thumbnails), "0", .int(RecentThumbnail.maximumCount - 1),
        ])
        return (reply.array ?? []).compactMap { $0.string.flatMap(RecentThumbnail.init(stored:)) }
    }

    private static func node(_ cache: RedisClient, _ budget: Duration) async -> Result<CacheStatistics.Node, RedisError>
    {
        do throws(RedisError) {
            var node = CacheStatistics.Node(address: "\(cache.configuration)")
            if let masters = try await Doctor.readable({ () async throws(RedisError) in
                try await cache.sendToMasters(["INFO"])
            }) {
                let infos = masters.map { $0.reply.string ?? "" }
                func sum(_ name: String) -> Int { infos.reduce(0) { $0 + InfoReply.number(name, in: $1) } }
                node.evictions = sum("evicted_keys")
                node.memoryUsed = sum("used_memory")
                // One master without a limit may take all memory.
                let isLimited = infos.allSatisfy { InfoReply.number("maxmemory", in: $0) > 0 }
                node.memoryLimit = isLimited ? sum("maxmemory") : 0
            } else {
                node.refusedCommands.append("info")
            }
            let scan = try await Doctor.readable { () async throws(RedisError) in
                try await memoryByKind(cache, budget)
            }
            if let scan {
                node.kinds = scan.kinds
                node.scanIsComplete = scan.isComplete
                if !scan.hasSizes { node.refusedCommands.append("memory|usage") }
            } else {
                node.scanIsComplete = false
                node.refusedCommands.append("scan")
            }
            return .success(node)
        } catch {
            return .failure(error)
        }
    }

    /// Keys of the cache by their kind.
    private struct KindScan {
        var kinds: [String: CacheStatistics.Kind] = [:]
        /// False if the time was over before all keys were scanned.
        var isComplete = false
        /// False if this user may not ask for the sizes of keys.
        var hasSizes = true
    }

    private static func memoryByKind(
        _ cache: RedisClient,
        _ budget: Duration
    ) async throws(RedisError) -> KindScan {
        let deadline = ContinuousClock.now + budget
        while true {
            do throws(RedisError) {
                return try await memoryByKind(cache, before: deadline)
            } catch {
                // Another master of a Redis Cluster has taken the keys over: the scan has to begin again.
                guard error.endsScan, ContinuousClock.now <= deadline, !Task.isCancelled else { throw error }
            }
        }
    }

    private static func memoryByKind(
        _ cache: RedisClient,
        before deadline: ContinuousClock.Instant
    ) async throws(RedisError) -> KindScan {
        var scan = KindScan()
        var cursor = "0"
        repeat {
            let reply = try await cache.send(["SCAN", .string(cursor), "MATCH", "megaton:?:{*", "COUNT", "500"])
            guard let parts = reply.array, parts.count == 2, let next = parts[0].string else {
                throw JobQueue.unexpected("SCAN")
            }
            cursor = next
            let names = (parts[1].array ?? []).compactMap(\.string)
            let sizes = try await cache.pipeline(names.map { ["MEMORY", "USAGE", .string($0), "SAMPLES", "0"] })
            for (name, size) in zip(names, sizes) {
                if case .error(let text) = size, RedisError(reply: text).isCommandRefused { scan.hasSizes = false }
                let letter = String(name.dropFirst("megaton:".count).prefix(1))
                scan.kinds[CacheKeys.kinds[letter] ?? letter, default: .init()].add(size.int ?? 0)
            }
            scan.isComplete = cursor == "0"
        } while !scan.isComplete && ContinuousClock.now <= deadline
        return scan
    }
}
