import MegatonCluster

/// Decides in which order the jobs of a batch are pushed: as they were read, but those of slow hosts earlier.
///
/// A batch ends with its last job. If that is of a host that takes ten seconds for an image, all workers wait ten
/// seconds for it, so long jobs go first (R. L. Graham, "Bounds on multiprocessing timing anomalies", 1969). A host is
/// slow if its last images took a second each to fetch. A host that fails is not: it may have recovered by the time at
/// which its jobs are due.
struct PushOrder {
    private struct Entry {
        let built: JobBuilder.BuiltJob
        let host: String?
        let size: Int
    }

    /// Jobs that were read and not pushed, in their order; nil for each that went earlier.
    private var entries: [Entry?] = []
    /// Index of the next one, and its number: numbers count all jobs that were read.
    private var next = 0
    private var nextNumber = 0
    /// Numbers of the waiting jobs of each host, in their order.
    private var numbers: [String: ArraySlice<Int>] = [:]
    /// Number of the waiting jobs of each id, of ids that may occur twice.
    private var ids: [String: Int] = [:]
    /// Jobs of each host that were pushed and have not ended.
    private var open: [String: Int] = [:]
    /// Slow hosts with the mean time that a fetch takes, seconds.
    private var means: [String: Double] = [:]
    /// Waiting jobs.
    private(set) var count = 0
    private var bytes = 0

    /// Limits on waiting jobs.
    private static let limit = 20_000
    private static let byteLimit = 32 << 20
    /// Memory of a job beside its texts, bytes, about.
    private static let overhead = 1024
    /// Seconds from which a fetch is slow.
    private static let slow = 1.0
    /// Maximum number of slow hosts that are known.
    private static let hostLimit = 1000
    /// Open jobs of a host up to which further ones go earlier: the usual limit on its requests at a time. Others would
    /// wait for their host.
    private static let openLimit = 64
    /// Part of the workers' places that slow hosts may have before their turn: the others keep the processors busy.
    private static let part = 0.75
    /// Weight of the last fetch in the mean.
    private static let weight = 0.25

    var hasRoom: Bool { count < Self.limit && bytes < Self.byteLimit }

    /// Whether jobs of slow hosts wait.
    var isAwaited: Bool { means.keys.contains { numbers[$0] != nil } }

    mutating func add(_ jobs: [JobBuilder.BuiltJob]) {
        for built in jobs {
            let host = built.job?.host
            let entry = Entry(built: built, host: host, size: Self.size(built))
            if let host { numbers[host, default: []].append(nextNumber + entries.count - next) }
            if let id = Self.repeatableID(built) { ids[id, default: 0] += 1 }
            entries.append(entry)
            count += 1
            bytes += entry.size
        }
    }

    /// - Parameters:
    ///   - limit: maximum number of jobs.
    ///   - places: jobs that the workers run at a time; 0 if that is unknown, and no job goes before its turn then.
    /// - Returns: the next jobs.
    mutating func take(_ limit: Int, places: Int = 0) -> [JobBuilder.BuiltJob] {
        var taken = takeSlow(min(limit, Int(Double(places) * Self.part) - openOfSlowHosts))
        while taken.count < limit, next < entries.count {
            if let entry = entries[next] {
                if let host = entry.host { numbers[host]?.removeFirst() }
                remove(entry, at: next)
                taken.append(entry.built)
            }
            next += 1
            nextNumber += 1
        }
        // Moved rarely: each move copies what is left.
        if next > 1000 && next > entries.count / 2 {
            entries.removeFirst(next)
            next = 0
        }
        return taken
    }

    private var openOfSlowHosts: Int { means.keys.reduce(0) { $0 + (open[$1] ?? 0) } }

    /// Jobs of the slow hosts, of each in proportion to the time that its waiting jobs take.
    private mutating func takeSlow(_ limit: Int) -> [JobBuilder.BuiltJob] {
        guard limit > 0 else { return [] }
        var hosts = means.compactMap { host, mean in
            numbers[host].map { (host: host, work: mean * Double($0.count)) }
        }
        hosts.sort { ($1.work, $0.host) < ($0.work, $1.host) }
        let total = hosts.reduce(0) { $0 + $1.work }
        var taken: [JobBuilder.BuiltJob] = []
        for (host, work) in hosts {
            let part = min(limit - taken.count, Int((Double(limit) * work / total).rounded(.up)))
            for _ in 0..<part {
                guard let built = takeFirst(of: host) else { break }
                taken.append(built)
            }
        }
        return taken
    }

    /// The first waiting job of a host, if it may go before the jobs of others.
    private mutating func takeFirst(of host: String) -> JobBuilder.BuiltJob? {
        guard open[host] ?? 0 < Self.openLimit, let number = numbers[host]?.first else { return nil }
        let index = next + number - nextNumber
        guard let entry = entries[index], canMove(entry.built) else { return nil }
        entries[index] = nil
        numbers[host]?.removeFirst()
        remove(entry, at: index)
        return entry.built
    }

    /// Of two jobs with one id or key, the first one counts, so they keep their order.
    private func canMove(_ built: JobBuilder.BuiltJob) -> Bool {
        guard let job = built.job, job.idempotencyKey == nil else { return false }
        return Self.repeatableID(built).map { ids[$0] == 1 } ?? true
    }

    private mutating func remove(_ entry: Entry, at index: Int) {
        entries[index] = nil
        count -= 1
        bytes -= entry.size
        if let id = Self.repeatableID(entry.built) {
            let rest = (ids[id] ?? 0) - 1
            ids[id] = rest > 0 ? rest : nil
        }
        guard let host = entry.host else { return }
        if numbers[host]?.isEmpty == true { numbers[host] = nil }
        open[host, default: 0] += 1
    }

    /// Counts an outcome.
    ///
    /// - Parameters:
    ///   - seconds: time that the fetch took; nil if the job failed.
    mutating func end(_ host: String, seconds: Double?) {
        let rest = (open[host] ?? 0) - 1
        open[host] = rest > 0 ? rest : nil
        guard let seconds else {
            means[host] = nil
            return
        }
        // Found in a cache.
        if seconds == 0 { return }
        let mean = means[host].map { $0 + (seconds - $0) * Self.weight } ?? seconds
        let isKnown = means[host] != nil || means.count < Self.hostLimit
        means[host] = mean >= Self.slow && isKnown ? mean : nil
    }

    private static func repeatableID(_ built: JobBuilder.BuiltJob) -> String? {
        built.hasUniqueID ? nil : built.job?.id
    }

    private static func size(_ built: JobBuilder.BuiltJob) -> Int {
        switch built {
        case .job(let job, _): overhead + job.source.utf8.count
        case .line(let line): overhead + line.count
        }
    }
}
