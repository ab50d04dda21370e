internal import MegatonCluster

/// The state of the cluster as the dashboard shows it. All lists are bounded.
struct DashboardSnapshot: Encodable, Sendable {
    /// Seconds since 1970, by the clock of the server.
    let time: Int
    let queue: QueueState
    /// Batches that have not ended first, and then the newest first; nil if a shard that has some does not answer.
    let batches: [DashboardBatch]?
    /// Number of known batches.
    let batchCount: Int
    /// Silent ones first, then those with most running jobs.
    let workers: [DashboardWorker]
    /// Number of workers, also of those that are not listed.
    let workerCount: Int
    /// Number of workers that have missed at most two heartbeats.
    let livingWorkers: Int
    let coordinators: Int
    let hosts: Hosts
    let failures: DashboardFailures
    let cache: CacheState
    /// Jobs that have ended lately, the newest first.
    var thumbnails: [RecentThumbnail] = []
    /// The last points of the history, the newest last: a page that reads slowly misses none.
    var points: [DashboardPoint] = []

    /// Jobs by state.
    struct QueueState: Encodable, Sendable {
        let isKnown: Bool
        let intake: Int
        let staged: Int
        let ready: Int
        let running: Int
        let delayed: Int
        let held: Int
        let heldHosts: Int
        let dead: Int
        let done: Int
        let failed: Int
        let cancelled: Int
        let retried: Int
        let stalled: Int
        /// `paused`, `drain`, both or none.
        let pauses: [String]
        let hasLeader: Bool
        /// Seconds for which the oldest ready job has been ready; nil if none is, or that is not known.
        let oldestReadySeconds: Double?
        /// Sentences for people.
        let warnings: [String]

        /// - Parameters:
        ///   - notices: warnings about the servers, which come first.
        ///   - damaged: parts of the state that cannot be read, as a key has another type than its own.
        init(_ status: ClusterStatus, _ ready: ReadyJobs, notices: [String] = [], damaged: [String] = []) {
            (isKnown, pauses, hasLeader) = (status.isKnown, status.pauses, status.leader != nil)
            (intake, staged, self.ready, running) = (status.intake, status.staged, status.ready, status.running)
            (delayed, held, heldHosts, dead) = (status.delayed, status.held, status.heldHosts, status.dead)
            (done, failed, cancelled) = (status.done, status.failed, status.cancelled)
            (retried, stalled) = (status.retried, status.stalled)
            oldestReadySeconds = ready.ages.values.max()
            // The page shows the first ones.
            warnings = (status.workerWarning.map { [$0] } ?? []) + notices + Self.warnings(status, damaged)
        }

        private static func warnings(_ status: ClusterStatus, _ damaged: [String]) -> [String] {
            var warnings = status.versionWarnings
            if let warning = status.intakeWarning { warnings.append("Intakes: \(warning)") }
            let absent = (status.shards ?? []).filter { !$0.isReachable }.map { "\($0.number)" }
            if !absent.isEmpty {
                warnings.append(
                    "These shards of the queue do not answer, and their jobs are not counted: "
                        + "\(absent.joined(separator: ", "))."
                )
            }
            if let keys = status.damagedKeys, !keys.isEmpty {
                warnings.append(
                    "\(keys.count) keys of the queue have another type than theirs; megaton doctor says how to repair "
                        + "the queue."
                )
            }
            if !damaged.isEmpty {
                warnings.append(
                    "These parts cannot be shown, as a key of the queue has another type than its own: "
                        + "\(damaged.joined(separator: ", ")). megaton doctor says how to repair the queue."
                )
            }
            return warnings
        }
    }

    /// The hosts of origins.
    struct Hosts: Encodable, Sendable {
        /// Those with most failures first.
        let restricted: [HostRoutes.Restricted]
        /// Number of restricted hosts, also of those that are not listed.
        let restrictedCount: Int
        /// Number of hosts whose circuit breaker is open.
        let openCount: Int
        /// Since the queue was created, those with most fetches first.
        let mostFetched: [HostRoutes.Fetched]
    }

    /// The ways in which lookups were answered since the queue was created, and the memory of the servers.
    struct CacheState: Encodable, Sendable {
        struct Tier: Encodable, Sendable {
            let name: String
            let count: Int
        }

        struct Server: Encodable, Sendable {
            let address: String
            let answers: Bool
            let used: Int?
            /// 0 if there is none.
            let limit: Int
            let isFull: Bool
            /// Whether a master that evicts nothing is full or nearly so.
            let needsRoom: Bool
            /// Whether it evicts keys when it is full; otherwise it refuses to store more.
            let evicts: Bool
            let evictions: Int
            let problem: String?
        }

        let tiers: [Tier]
        /// Fraction of lookups in the shared cache that found an entry; nil before the first.
        let hitRatio: Double?
        let originFetches: Int
        let renders: Int
        let bytesIn: Int
        let bytesOut: Int
        let servers: [Server]

        /// - Parameter hasRefused: whether entries were refused lately, also if the memory seems to have room.
        init(_ statistics: CacheStatistics, _ memory: [CacheMemory], hasRefused: Bool = false) {
            tiers = [
                Tier(name: "shared_cache", count: statistics.hits),
                Tier(name: "stale", count: statistics.staleHits),
                Tier(name: "single_flight", count: statistics.flightWaiters),
                Tier(name: "remembered_failure", count: statistics.negatives),
                Tier(name: "revalidated", count: statistics.revalidations),
                Tier(name: "origin", count: statistics.originFetches),
            ]
            hitRatio = statistics.hitRatio
            (originFetches, renders) = (statistics.originFetches, statistics.renders)
            (bytesIn, bytesOut) = (statistics.bytesIn, statistics.bytesOut)
            servers = memory.map {
                Server(
                    address: $0.address,
                    answers: $0.answers,
                    used: $0.used,
                    limit: $0.limit,
                    // Which one has refused is not counted: only those that do not evict may have.
                    isFull: $0.isFull || hasRefused && !$0.evicts,
                    needsRoom: $0.needsRoom || hasRefused && !$0.evicts,
                    evicts: $0.evicts,
                    evictions: $0.evictions,
                    problem: $0.problem
                )
            }
        }
    }
}

/// A batch and its progress.
struct DashboardBatch: Encodable, Sendable, Equatable {
    let batch: String
    /// `open`, `running`, `incomplete`, `finished`, or `damaged` if its key cannot be read.
    let state: String
    let submitted: Int
    /// Jobs that have ended, with any result.
    let ended: Int
    let failed: Int
    let cancelled: Int
    /// Jobs that end in a second, over the last minute; nil if it is not known yet.
    let jobsPerSecond: Double?
    /// Seconds until all submitted jobs have ended at this speed; nil if it is not known, or no more are open.
    let secondsLeft: Double?

    init(_ summary: BatchSummary, speed: Double?) {
        let (report, isDamaged) = (BatchReport(summary), summary.damagedKey != nil)
        batch = summary.name
        state = isDamaged ? "damaged" : report.state
        (submitted, failed, ended) = (report.submitted, report.failed, summary.counters.ended)
        cancelled = summary.counters["cancelled"]
        let isOver = isDamaged || summary.counters.isFinished
        jobsPerSecond = isOver ? nil : speed
        let open = max(submitted - ended, 0)
        secondsLeft = isOver || open == 0 ? nil : speed.flatMap { $0 > 0 ? Double(open) / $0 : nil }
    }

    /// Whether no job of it will end any more.
    var isOver: Bool { state == "finished" || state == "damaged" }
}

/// A worker and its jobs.
struct DashboardWorker: Encodable, Sendable, Equatable {
    struct CurrentJob: Encodable, Sendable, Equatable {
        let id: String
        let batch: String?
        let host: String?
        let attempt: Int
    }

    let name: String
    let version: String?
    /// Jobs at its last heartbeat.
    let running: Int
    /// Seconds since that.
    let silent: Double
    let isLiving: Bool
    /// The first of its jobs.
    let jobs: [CurrentJob]

    init(_ worker: ClusterStatus.Worker, _ jobs: [LeasedJob]) {
        (name, version, running, isLiving) = (worker.name, worker.version, worker.running, worker.isLiving)
        silent = min(worker.silent, 1e9)
        self.jobs = jobs.map { CurrentJob(id: $0.key.id, batch: $0.key.batch, host: $0.host, attempt: $0.attempt) }
    }
}
