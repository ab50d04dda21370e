internal import MegatonCluster
package import MegatonCore
internal import MegatonPipeline
internal import MegatonRedis

/// Metrics of the whole cluster, from what its control Redis knows. Each process that shows them shows the same values.
package enum ClusterMetrics {
    static let up = MetricDescription(
        "megaton_cluster_up",
        .gauge,
        "1 if the control Redis has answered the last reading of these metrics, else 0"
    )
    static let missing = MetricDescription(
        "megaton_cluster_missing_metrics",
        .gauge,
        "Metrics of the cluster that are left out, as a key of the queue has another type; megaton doctor names the key"
    )
    static let jobs = MetricDescription(
        "megaton_queue_jobs",
        .gauge,
        "Jobs by state (intake, staged, ready, running, delayed, held, dead); ready ones also by priority",
        labels: ["state", "priority"]
    )
    static let oldest = MetricDescription(
        "megaton_queue_oldest_ready_seconds",
        .gauge,
        "Time for which the oldest ready job of the priority has been ready; 0 if none is",
        labels: ["priority"]
    )
    static let intake = MetricDescription(
        "megaton_queue_intake_jobs",
        .gauge,
        "Pushed jobs that no coordinator has read, by the priority of their public list; those of batches with an "
            + "intake of their own have none",
        labels: ["priority"]
    )
    static let overdue = MetricDescription(
        "megaton_queue_overdue_lease_seconds",
        .gauge,
        "Time for which the first expired lease has not been swept; 0 if none has expired"
    )
    static let ended = MetricDescription(
        "megaton_queue_ended_jobs_total",
        .counter,
        "Jobs that have ended since the queue was created, by result",
        labels: ["result"]
    )
    static let retried = MetricDescription(
        "megaton_queue_retried_jobs_total",
        .counter,
        "Attempts that led to a retry since the queue was created"
    )
    static let stalled = MetricDescription(
        "megaton_queue_stalled_jobs_total",
        .counter,
        "Leases that expired since the queue was created, because a worker died or fell silent"
    )
    static let batches = MetricDescription("megaton_queue_batches", .gauge, "Known batches, ended ones included")
    static let paused = MetricDescription(
        "megaton_queue_paused",
        .gauge,
        "1 while the queue is paused (no job is claimed) or drains (none is admitted), by mode",
        labels: ["mode"]
    )
    static let leaders = MetricDescription(
        "megaton_queue_has_leader",
        .gauge,
        "1 if a coordinator, or a worker in its place, leads each shard, else 0"
    )
    static let coordinators = MetricDescription(
        "megaton_coordinators",
        .gauge,
        "Coordinators by version",
        labels: ["version"]
    )
    static let workers = MetricDescription(
        "megaton_workers",
        .gauge,
        "Workers that have missed at most two heartbeats, by version",
        labels: ["version"]
    )
    static let places = MetricDescription(
        "megaton_places",
        .gauge,
        "Jobs that these workers run at a time at most, by version",
        labels: ["version"]
    )
    static let silentWorkers = MetricDescription(
        "megaton_silent_workers",
        .gauge,
        "Workers that have missed more heartbeats and have not signed off"
    )
    static let hosts = MetricDescription(
        "megaton_restricted_hosts",
        .gauge,
        "Hosts of origins by state: limited (they asked for fewer requests), open (their circuit breaker is open)",
        labels: ["state"]
    )
    static let openHosts = MetricDescription(
        "megaton_host_circuit_open",
        .gauge,
        "1 for each host with an open circuit breaker, at most 50 of them, those with most failures first",
        labels: ["host"]
    )
    static let hostFailures = MetricDescription(
        "megaton_host_failures",
        .gauge,
        "Failures in a row of limited and open hosts: the 50 with most failures, and all others together as `other`",
        labels: ["host"]
    )
    static let hostFetches = MetricDescription(
        "megaton_host_fetches_total",
        .counter,
        "Requests to origins by host: the 50 with most requests, and all others together as `other`",
        labels: ["host"]
    )
    static let cache = MetricDescription(
        "megaton_shared_cache_events_total",
        .counter,
        "Events of the shared cache and of the fetches and renders behind it, since the queue was created",
        labels: ["event"]
    )

    package static let descriptions = [
        up, missing, jobs, oldest, intake, overdue, ended, retried, stalled, batches, paused, leaders, coordinators,
        workers, places, silentWorkers, hosts, openHosts, hostFailures, hostFetches, cache,
    ]

    /// Maximum number of hosts with values of their own.
    static let shownHosts = 50

    /// The values of one reading.
    struct Reading: Sendable {
        let families: [MetricFamily]
        /// Names of the metrics that were left out, as a key has another type than its own.
        let missing: [String]
    }

    /// Names of the keys of the status on which a metric depends, without the parts of the names behind a colon.
    private static let keys: [String: Set<String>] = [
        jobs.name: [
            "jobs", "intakes", "epoch", "stage", "ready", "suspects", "lease", "delay", "holding", "dead",
        ],
        intake.name: ["jobs", "intakes"], overdue.name: ["lease"], ended.name: ["stat"], retried.name: ["stat"],
        stalled.name: ["stat"], batches.name: ["batches"], paused.name: ["control"], leaders.name: ["leader"],
        coordinators.name: ["coordinators"], workers.name: ["workers", "workerinfo"],
        places.name: ["workers", "workerinfo"], silentWorkers.name: ["workers", "workerinfo"],
    ]

    /// Reads the values. No cache is scanned. A metric is left out if another program has written one of its keys with
    /// another type: 0 would be wrong.
    ///
    /// - Throws: if no shard of the queue answers, or one refuses to.
    static func read(_ inspector: Inspector) async throws(RedisError) -> Reading {
        let status = try await inspector.status(skipsDamage: true)
        let ready = try await Inspector.undamaged { () async throws(RedisError) in try await inspector.readyJobs() }
        let hosts = try await Inspector.undamaged { () async throws(RedisError) in
            try await inspector.restrictedHosts()
        }
        let cache = try await Inspector.undamaged { () async throws(RedisError) in
            try await inspector.cacheCounters()
        }
        var families = queue(status) + processes(status)
        if let ready { families += Self.ready(status, ready) }
        if let hosts { families += Self.hosts(hosts) }
        if let cache {
            families.append(byHost(hostFetches, cache.originFetchesByHost))
            families.append(
                MetricFamily(Self.cache, cache.events.map { .init(Double($0.count), labels: [("event", $0.name)]) })
            )
        }
        let damaged = Set((status.damagedKeys ?? []).map { String($0.name.prefix { $0 != ":" }) })
        families.removeAll { !damaged.isDisjoint(with: keys[$0.description.name] ?? []) }
        let present = Set(families.map(\.description.name) + [up.name, missing.name])
        let absent = descriptions.map(\.name).filter { !present.contains($0) }
        return Reading(families: families + [MetricFamily(missing, Double(absent.count))], missing: absent)
    }

    /// The metrics that have the ready jobs.
    private static func ready(_ status: ClusterStatus, _ ready: ReadyJobs) -> [MetricFamily] {
        let states = [
            ("intake", status.intake), ("staged", status.staged), ("running", status.running),
            ("delayed", status.delayed), ("held", status.held), ("dead", status.dead),
        ]
        let priorities = Job.Priority.allCases
        let jobs =
            states.map { MetricFamily.Sample(Double($0.1), labels: [("state", $0.0), ("priority", "")]) }
            + priorities.map {
                .init(Double(ready.counts[$0] ?? 0), labels: [("state", "ready"), ("priority", $0.rawValue)])
            }
        return [
            MetricFamily(Self.jobs, jobs),
            MetricFamily(oldest, priorities.map { .init(ready.ages[$0] ?? 0, labels: [("priority", $0.rawValue)]) }),
        ]
    }

    private static func queue(_ status: ClusterStatus) -> [MetricFamily] {
        let results = [("done", status.done), ("failed", status.failed), ("cancelled", status.cancelled)]
        let publicIntake = status.publicIntake.values.reduce(0, +)
        let intakes =
            Job.Priority.allCases.map { ($0.rawValue, status.publicIntake[$0] ?? 0) }
            + [("", max(0, status.intake - publicIntake))]
        return [
            MetricFamily(intake, intakes.map { .init(Double($0.1), labels: [("priority", $0.0)]) }),
            MetricFamily(overdue, status.overdueLease),
            MetricFamily(ended, results.map { .init(Double($0.1), labels: [("result", $0.0)]) }),
            MetricFamily(retried, Double(status.retried)), MetricFamily(stalled, Double(status.stalled)),
            MetricFamily(batches, Double(status.batches)),
            MetricFamily(
                paused,
                ["paused", "drain"].map { .init(status.pauses.contains($0) ? 1 : 0, labels: [("mode", $0)]) }
            ),
            MetricFamily(leaders, status.leader == nil ? 0 : 1),
        ]
    }

    private static func processes(_ status: ClusterStatus) -> [MetricFamily] {
        func byVersion(_ versions: [(String?, Int)]) -> [MetricFamily.Sample] {
            let counts = Dictionary(versions.map { ($0.0 ?? "unknown", $0.1) }, uniquingKeysWith: +)
            return counts.sorted { $0.key < $1.key }.map { .init(Double($0.value), labels: [("version", $0.key)]) }
        }
        let living = status.livingWorkers
        let none: [MetricFamily.Sample] = [.init(0, labels: [("version", "")])]
        return [
            MetricFamily(coordinators, byVersion(status.coordinators.map { ($0.version, 1) })),
            MetricFamily(workers, living.isEmpty ? none : byVersion(living.map { ($0.version, 1) })),
            MetricFamily(places, living.isEmpty ? none : byVersion(living.map { ($0.version, $0.places ?? 0) })),
            MetricFamily(silentWorkers, Double(status.workers.count - living.count)),
        ]
    }

    private static func hosts(_ hosts: [HostState]) -> [MetricFamily] {
        let open = hosts.filter(\.isOpen).sorted { ($1.failures, $0.name) < ($0.failures, $1.name) }
        return [
            MetricFamily(
                Self.hosts,
                [
                    .init(Double(hosts.count(where: \.isLimited)), labels: [("state", "limited")]),
                    .init(Double(open.count), labels: [("state", "open")]),
                ]
            ),
            MetricFamily(openHosts, open.prefix(shownHosts).map { .init(1, labels: [("host", $0.name)]) }),
            byHost(hostFailures, Dictionary(hosts.map { ($0.name, $0.failures) }, uniquingKeysWith: max)),
        ]
    }

    /// Label of the hosts without a value of their own.
    private static let other = "other"

    /// The hosts with the largest numbers, and the sum of the others.
    private static func byHost(_ description: MetricDescription, _ numbers: [String: Int]) -> MetricFamily {
        // A host of this name counts with them: two samples with the same labels would be invalid.
        let sorted = numbers.filter { $0.key != other && $0.value > 0 }
            .sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        var shown = sorted.prefix(shownHosts).map {
            MetricFamily.Sample(Double($0.value), labels: [("host", $0.key)])
        }
        let others = sorted.dropFirst(shownHosts).reduce(numbers[other] ?? 0) { $0 + $1.value }
        if others > 0 { shown.append(.init(Double(others), labels: [("host", other)])) }
        return MetricFamily(description, shown)
    }
}
