internal import Foundation
internal import MegatonCluster
internal import MegatonCore
internal import MegatonRedis

/// Reads the state of the cluster for the dashboard: a few dozen short commands each time, and those that read more in
/// one of several readings only. No key of the cache is scanned.
actor DashboardReader {
    /// One reading.
    struct Reading: Sendable {
        let snapshot: DashboardSnapshot
        let status: ClusterStatus
        /// The counters, if they were read this time.
        let counters: DashboardCounters?
    }

    /// The parts that take longer to read, or change seldom.
    private struct SlowPart: Sendable {
        let hosts: DashboardSnapshot.Hosts
        let failures: DashboardFailures
        /// Nil if the counters of the cache cannot be read.
        let statistics: CacheStatistics?
        let cache: DashboardSnapshot.CacheState
        let thumbnails: [RecentThumbnail]
        let at: ContinuousClock.Instant
        /// Warnings about the servers.
        let notices: [String]
        /// Parts that cannot be read, as a key has another type than its own.
        let damaged: [String]
    }

    private let cluster: ClusterConnection
    private var slow: SlowPart?
    private var paces = BatchPaces()
    private var refusals = RecentRefusals()

    /// Maximum number of batches that are read, and shown: one that runs may be older than many that have ended.
    private static let readBatches = 50
    private static let shownBatches = 20
    private static let shownWorkers = 100
    /// Maximum number of jobs of a worker that are shown.
    private static let shownJobs = 3
    /// Maximum number of leases of a shard that are read.
    private static let readLeases = 1_000
    private static let shownHosts = 20
    /// Interval of the slow part.
    private static let slowInterval = DashboardHistory.interval

    init(_ cluster: ClusterConnection) { self.cluster = cluster }

    /// - Throws: if no shard of the queue answers, or one refuses to.
    func read() async throws -> Reading {
        let queue = try await cluster.queue()
        let inspector = try await cluster.inspector()
        let status = try await inspector.status(skipsDamage: true)
        // One damaged part does not hide the others.
        let ready = try await Inspector.undamaged { () async throws(RedisError) in try await inspector.readyJobs() }
        let jobs = try await Inspector.undamaged { () async throws(RedisError) -> [LeasedJob] in
            status.running > 0 ? try await inspector.leasedJobs(limit: Self.readLeases) : []
        }
        let batches = try await Inspector.undamaged { () async throws(RedisError) in try await Self.batches(queue) }
        let now = ContinuousClock.now
        var counters: DashboardCounters?
        let part: SlowPart
        if let slow, slow.at.duration(to: now) < Self.slowInterval {
            part = slow
        } else {
            part = try await slowPart(inspector, at: now)
            slow = part
            if let statistics = part.statistics {
                counters = DashboardCounters(
                    done: status.done,
                    failed: status.failed,
                    retried: status.retried,
                    fetches: statistics.originFetches,
                    renders: statistics.renders
                )
            }
        }
        let damaged = Self.names(["ready jobs": ready == nil, "running jobs": jobs == nil, "batches": batches == nil])
        let snapshot = DashboardSnapshot(
            time: Int(Date().timeIntervalSince1970),
            queue: .init(status, ready ?? ReadyJobs(), notices: part.notices, damaged: damaged + part.damaged),
            batches: (batches ?? nil).map { show($0, at: now) },
            batchCount: status.batches,
            workers: Self.workers(status, jobs ?? []),
            workerCount: status.workers.count,
            livingWorkers: status.livingWorkers.count,
            coordinators: status.coordinators.count,
            hosts: part.hosts,
            failures: part.failures,
            cache: part.cache,
            thumbnails: part.thumbnails
        )
        return Reading(snapshot: snapshot, status: status, counters: counters)
    }

    /// The newest batches; nil if a shard does not answer, as their sums would be wrong.
    private static func batches(_ queue: ShardedQueue) async throws(RedisError) -> [BatchSummary]? {
        do throws(RedisError) {
            return try await queue.batches(limit: readBatches)
        } catch {
            guard queue.isDivided, error.isTransient else { throw error }
            return nil
        }
    }

    private func show(_ summaries: [BatchSummary], at now: ContinuousClock.Instant) -> [DashboardBatch] {
        paces.add(summaries.map { ($0.name, $0.counters.ended) }, at: now)
        let all = summaries.map { DashboardBatch($0, speed: paces.speed(of: $0.name)) }
        return Array((all.filter { !$0.isOver } + all.filter(\.isOver)).prefix(Self.shownBatches))
    }

    private static func workers(_ status: ClusterStatus, _ jobs: [LeasedJob]) -> [DashboardWorker] {
        let byWorker = Dictionary(grouping: jobs, by: \.worker)
        func rank(_ worker: ClusterStatus.Worker) -> Int { worker.isLiving ? worker.running : .max }
        let sorted = status.workers.sorted { (rank($1), $0.name) < (rank($0), $1.name) }
        return sorted.prefix(shownWorkers).map { worker in
            let own = (byWorker[worker.name] ?? []).sorted { $0.key.text < $1.key.text }
            return DashboardWorker(worker, Array(own.prefix(shownJobs)))
        }
    }

    private func slowPart(_ inspector: Inspector, at now: ContinuousClock.Instant) async throws -> SlowPart {
        let hosts = try await Inspector.undamaged { () async throws(RedisError) in
            try await inspector.restrictedHosts()
        }
        let statistics = try await Inspector.undamaged { () async throws(RedisError) in
            try await inspector.cacheCounters()
        }
        let dead = try await Inspector.undamaged { () async throws(RedisError) in
            try await inspector.newestDeadLetters(limit: DashboardFailures.maximumExamined)
        }
        let thumbnails = try await Inspector.undamaged { () async throws(RedisError) in
            try await inspector.recentThumbnails()
        }
        let restricted = (hosts ?? []).sorted { ($1.failures, $0.name) < ($0.failures, $1.name) }
        let fetches = (statistics?.originFetchesByHost ?? [:]).sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        let memory = await inspector.cacheMemory()
        if let statistics { refusals.add(statistics, memory, at: now) }
        let hasRefused = refusals.hasRefused(at: now)
        return SlowPart(
            hosts: DashboardSnapshot.Hosts(
                restricted: restricted.prefix(Self.shownHosts).map(HostRoutes.Restricted.init),
                restrictedCount: restricted.count,
                openCount: restricted.count(where: \.isOpen),
                mostFetched: fetches.prefix(Self.shownHosts).map { .init(host: $0.key, fetches: $0.value) }
            ),
            failures: DashboardFailures(dead ?? NewestDeadLetters()),
            statistics: statistics,
            cache: DashboardSnapshot.CacheState(
                statistics ?? CacheStatistics(counters: [:]),
                memory,
                hasRefused: hasRefused
            ),
            thumbnails: thumbnails ?? [],
            at: now,
            notices: await inspector.controlMemoryWarnings() + (hasRefused ? Self.refusalWarnings(memory) : []),
            damaged: Self.names([
                "hosts": hosts == nil, "counters of the cache": statistics == nil, "dead jobs": dead == nil,
                "last thumbnails": thumbnails == nil,
            ])
        )
    }

    /// The warning about refused entries. The page has a notice of its own about servers that do not evict.
    static func refusalWarnings(_ memory: [CacheMemory]) -> [String] {
        memory.contains { !$0.evicts } ? [] : [CacheStatistics.refusalWarning]
    }

    private static func names(_ parts: KeyValuePairs<String, Bool>) -> [String] {
        parts.filter(\.value).map(\.key)
    }
}
