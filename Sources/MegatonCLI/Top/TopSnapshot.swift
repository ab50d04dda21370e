import MegatonCluster
import MegatonCore

/// Rates of a cluster between two readings.
struct TopRates: Sendable, Encodable, Equatable {
    /// Jobs a second that ended so.
    let done: Double
    let failed: Double
    let cancelled: Double
    /// Attempts a second that led to a retry.
    let retried: Double
    let cache: CacheRates

    private enum CodingKeys: CodingKey {
        case done, failed, cancelled, retried
    }

    /// - Parameter seconds: time between the readings, more than 0.
    init(from first: TopReading, to second: TopReading, seconds: Double) {
        // Those of a shard that does not answer are missing meanwhile.
        func rate(_ path: KeyPath<ClusterStatus, Int>) -> Double {
            max(0, Double(second.status[keyPath: path]) - Double(first.status[keyPath: path])) / seconds
        }
        done = rate(\.done)
        failed = rate(\.failed)
        cancelled = rate(\.cancelled)
        retried = rate(\.retried)
        cache = CacheRates(from: first.counters, to: second.counters, seconds: seconds)
    }

    func encode(to encoder: any Encoder) throws {
        try cache.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(done, forKey: .done)
        try container.encode(failed, forKey: .failed)
        try container.encode(cancelled, forKey: .cancelled)
        try container.encode(retried, forKey: .retried)
    }
}

/// The state of a cluster with its rates, as `megaton top` shows it.
struct TopSnapshot: Sendable {
    /// Requests to a host of origins, by its name without a port.
    struct Host: Sendable, Encodable, Equatable {
        let host: String
        /// Nil in the first reading.
        let fetchesPerSecond: Double?
        /// Since the queue was created.
        let fetches: Int
    }

    let reading: TopReading
    /// Nil in the first reading.
    let rates: TopRates?
    /// Those with most fetches since the reading before, then those with most fetches of all.
    let hosts: [Host]
    /// A warning if the shared cache has refused entries since the reading before; nil otherwise.
    let refusal: String?

    /// Maximum number of hosts.
    private static let hostLimit = 50

    /// - Parameter last: nil for the first reading.
    init(from last: TopReading?, to reading: TopReading) {
        self.reading = reading
        let hasRefused = last.map { reading.counters.hasRefused(since: $0.counters) } ?? false
        refusal = hasRefused ? CacheStatistics.refusalWarning : nil
        let seconds = last.map { max(0.001, $0.time.duration(to: reading.time).inSeconds) }
        if let last, let seconds {
            rates = TopRates(from: last, to: reading, seconds: seconds)
        } else {
            rates = nil
        }
        let before = last?.counters.originFetchesByHost
        let hosts = reading.counters.originFetchesByHost.map { name, count in
            let rate = seconds.map { max(0, Double(count) - Double(before?[name] ?? 0)) / $0 }
            return Host(host: name, fetchesPerSecond: rate, fetches: count)
        }
        let sorted = hosts.sorted { first, second in
            (second.fetchesPerSecond ?? 0, second.fetches, first.host)
                < (first.fetchesPerSecond ?? 0, first.fetches, second.host)
        }
        self.hosts = Array(sorted.prefix(Self.hostLimit))
    }

    /// Sentences about faults.
    var warnings: [String] {
        let status = reading.status
        var warnings: [String] = []
        if !status.isKnown { warnings.append("no process has used this queue; --queue names another one") }
        if !status.pauses.isEmpty {
            warnings.append("\(status.pauses.joined(separator: ", ")); megaton queue resume ends this")
        }
        if let text = status.workerWarning { warnings.append(text) }
        warnings += status.workerProblems
        warnings += reading.memoryWarnings
        if let text = refusal { warnings.append(text) }
        if let text = status.intakeWarning { warnings.append("intakes: \(text)") }
        let shards = (status.shards ?? []).filter { !$0.isReachable }
        if !shards.isEmpty {
            let names = shards.map { "\($0.number)" }.joined(separator: ", ")
            warnings.append("unreachable shards, which the numbers lack: \(names)")
        }
        for cache in reading.caches {
            if let refusal = cache.refusal { warnings.append("cache cannot be used: \(cache.address): \(refusal)") }
        }
        for cache in reading.caches where !cache.isReachable {
            warnings.append("cache unreachable: \(cache.address)")
        }
        if let damaged = status.damagedKeys, !damaged.isEmpty {
            warnings.append("the numbers are not complete; megaton doctor says which keys are damaged")
        }
        return warnings + status.versionWarnings
    }
}

extension TopSnapshot: Encodable {
    /// A host that gets fewer requests than its limits allow, or probes only.
    private struct Restricted: Encodable {
        let host: String
        let limited: Bool
        let open: Bool
        /// Consecutive failures.
        let failures: Int
        /// Seconds until the next request or probe.
        let waitSeconds: Double

        init(_ state: HostState) {
            host = state.name
            (limited, open, failures) = (state.isLimited, state.isOpen, state.failures)
            waitSeconds = max(state.blockedFor, state.openFor)
        }
    }

    /// A dead job without its JSON, which may be large.
    private struct Failure: Encodable {
        let id: String
        let batch: String?
        /// Without its secrets.
        let source: String?
        let code: String
        let message: String
        /// Seconds since 1970.
        let died: Double

        init(_ letter: DeadLetter) {
            (id, batch, source, died) = (letter.id, letter.batch, letter.shownSource, letter.died)
            (code, message) = (letter.content.code, letter.content.message)
        }
    }

    private enum CodingKeys: CodingKey {
        case queue, warnings, rates, hosts, restrictedHosts, restrictedCount, failures
    }

    /// Maximum number of restricted hosts in JSON.
    private static let restrictedLimit = 1000

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        let report = ClusterReport(status: reading.status, caches: reading.caches, ready: reading.ready)
        try container.encode(report, forKey: .queue)
        try container.encode(warnings, forKey: .warnings)
        try container.encodeIfPresent(rates, forKey: .rates)
        try container.encode(hosts, forKey: .hosts)
        let restricted = reading.restricted.prefix(Self.restrictedLimit).map(Restricted.init)
        try container.encode(restricted, forKey: .restrictedHosts)
        try container.encode(reading.restricted.count, forKey: .restrictedCount)
        try container.encode(reading.failures.map(Failure.init), forKey: .failures)
    }
}
