internal import MegatonPipeline
package import MegatonRedis

/// Checks Redis, the queue and libvips for faults, and for settings that cause trouble later.
package struct Doctor: Sendable {
    let control: RedisClient
    /// The servers of the cache.
    let caches: [RedisClient]
    /// Whether the cache is on the control Redis, or a part of it.
    private(set) var isShared: Bool
    /// Servers of the cache that the control Redis is, under the same name or another one.
    private var sharedCaches: [RedisConfiguration]
    let keys: QueueKeys
    /// The servers of the queue's other shards, which are checked with these.
    private let furtherControls: [RedisConfiguration]

    /// - Parameter caches: the servers of the cache, or the same client as `control` if one Redis serves as both.
    package init(
        control: RedisClient,
        caches: [RedisClient],
        keys: QueueKeys,
        furtherControls: [RedisConfiguration] = []
    ) {
        self.control = control
        self.furtherControls = furtherControls
        self.caches = caches
        self.keys = keys
        sharedCaches = caches.map(\.configuration).filter { $0 == control.configuration }
        isShared = !sharedCaches.isEmpty
    }

    /// Runs all checks for all shards of a queue. Each server is checked once: if it has shards and a share of the
    /// cache, as one that must not lose jobs.
    ///
    /// - Parameter repair: as for ``examine(repair:)``.
    package static func examine(_ queue: ShardedQueue, caches: [RedisClient], repair: Bool) async -> [Finding] {
        let servers = queue.shards.servers.map(\.configuration)
        let first = Doctor(
            control: queue.first.redis,
            caches: caches,
            keys: queue.first.keys,
            furtherControls: Array(servers.dropFirst())
        )
        var findings = await first.examine(repair: repair)
        var unchecked = servers.dropFirst()
        for shard in queue.shards.dropFirst() {
            let server = shard.redis.configuration
            let own = caches.filter { $0.configuration == server }
            let doctor = Doctor(control: shard.redis, caches: own, keys: shard.keys)
            findings += await doctor.examineShard(repair: repair, checksServer: unchecked.contains(server))
            unchecked.removeAll { $0 == server }
        }
        return findings
    }

    /// Runs all checks and returns every finding, including the fine ones.
    ///
    /// - Parameter repair: whether faults of the queue are repaired; nothing else is changed in any case.
    package func examine(repair: Bool = false) async -> [Finding] {
        var doctor = self
        let names = await doctor.findSameServers()
        return await doctor.findings(repair: repair) + names
    }

    private func findings(repair: Bool) async -> [Finding] {
        let (ofControl, controlClock) = await server(.control, at: control)
        var findings = ofControl
        for cache in caches where !(sharedCaches + furtherControls).contains(cache.configuration) {
            var (ofCache, cacheClock) = await server(.cache, at: cache)
            if let controlClock, let cacheClock { ofCache.append(Self.clocks(controlClock - cacheClock)) }
            if caches.count > 1 {
                for index in ofCache.indices { ofCache[index].subject += " (\(cache.configuration))" }
            }
            findings += ofCache
        }
        findings.append(libvips())
        // A control Redis that cannot be reached is reported already, and it holds the queue.
        if controlClock != nil {
            findings += await keyTypes()
            findings += await state()
            findings.append(await audit(repair: repair))
        }
        return findings
    }

    /// Finds out which URLs name the same server, by the `run_id` that each Redis process makes at its start.
    ///
    /// - Returns: findings about servers with several names.
    private mutating func findSameServers() async -> [Finding] {
        if caches.allSatisfy({ $0.configuration == control.configuration }) { return [] }
        let ids = await Self.identities(of: [control] + caches)
        let ofControl = ids[0]
        var findings: [Finding] = []
        var seen: [(server: RedisConfiguration, ids: Set<String>)] = []
        for (cache, ids) in zip(caches, ids.dropFirst()) {
            let server = cache.configuration
            if server != control.configuration, !ids.isDisjoint(with: ofControl) {
                sharedCaches.append(server)
                isShared = true
            }
            if let other = seen.first(where: { !$0.ids.isDisjoint(with: ids) }) {
                findings.append(Self.twoNames(other.server, server))
            }
            seen.append((server, ids))
        }
        return findings
    }

    /// The identities of servers, which are asked at the same time: each may be unreachable.
    private static func identities(of servers: [RedisClient]) async -> [Set<String>] {
        await withTaskGroup(of: (Int, Set<String>).self) { group in
            for (index, server) in servers.enumerated() {
                group.addTask { (index, await identities(of: server)) }
            }
            var all = [Set<String>](repeating: [], count: servers.count)
            for await (index, ids) in group { all[index] = ids }
            return all
        }
    }

    /// The `run_id` of a server, or those of the masters of a cluster; none if it does not answer, or its user may not
    /// ask. Other findings say so.
    private static func identities(of redis: RedisClient) async -> Set<String> {
        let replies = (try? await redis.sendToMasters(["INFO", "server"])) ?? []
        let ids = replies.compactMap { InfoReply.text("run_id", in: $0.reply.string ?? "") }
        // A managed server may show none, or zeros.
        return Set(ids.filter { Set($0).count > 1 })
    }

    private static func twoNames(_ one: RedisConfiguration, _ two: RedisConfiguration) -> Finding {
        Finding(
            level: .error,
            subject: "\(Part.cache.rawValue): names",
            message:
                "\(one) and \(two) are the same server, which gets two shares of the keys. Name each server once, and "
                + "with the same URL in all processes: the name decides which keys are at a server."
        )
    }

    /// Checks a further shard of a queue.
    ///
    /// - Parameter checksServer: whether its Redis was not checked yet.
    private func examineShard(repair: Bool, checksServer: Bool) async -> [Finding] {
        var findings: [Finding] = []
        if checksServer {
            let (ofControl, clock) = await server(.control, at: control)
            findings = ofControl
            if clock == nil { return named(findings) }
        }
        findings += await keyTypes()
        findings += await state()
        findings.append(await audit(repair: repair))
        return named(findings)
    }

    private func named(_ findings: [Finding]) -> [Finding] {
        findings.map { finding in
            var finding = finding
            finding.subject += " (shard \(keys.shard))"
            return finding
        }
    }

    private func libvips() -> Finding {
        do throws(ImagePipeline.Error) {
            try VipsRuntime.start()
            return Finding(
                level: .ok,
                subject: "libvips",
                message: "\(VipsRuntime.version); untrusted loaders are blocked; readable types: "
                    + AssetType.supported.map(\.description).sorted().joined(separator: ", ")
            )
        } catch {
            return Finding(level: .error, subject: "libvips", message: error.message)
        }
    }
}

extension Doctor {
    /// Result of one check.
    package struct Finding: Sendable, Codable, Equatable {
        /// Severity of a finding.
        package enum Level: String, Sendable, Codable {
            case ok, warning, error
        }

        package var level: Level
        package var subject: String
        /// The observation and, unless it is fine, the remedy.
        package var message: String
    }
}
