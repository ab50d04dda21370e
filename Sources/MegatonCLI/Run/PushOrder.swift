import MegatonCluster

/// Decides in which order the jobs of a batch are pushed: as they were read, but those of slow hosts earlier.
///
/// A batch ends with its last job. If that is of a host that takes ten seconds for an image, all workers wait ten
/// seconds for it, so long jobs go first (R. L. Graham, "Bounds on multiprocessing timing anomalies", 1969). A host is
/// slow if its last images took a second each to fetch; or, if none has ended yet, if one of its jobs is overdue
/// (``PushFront``), or if first bytes have come and no whole response. A host that fails is not: it may have recovered
/// by the time at which its jobs are due.
///
/// The first job of each host goes before its turn at the beginning, and later that of each host of which many jobs
/// wait here: the slow hosts are known soon, also those at the end of a list that is sorted by host.
struct PushOrder {
    /// An outcome, as far as it says something about the host.
    enum Outcome {
        /// Seconds that the fetch took; 0 if there was none.
        case fetched(Double)
        /// The host failed, perhaps for a while.
        case failed
        /// Nothing is known.
        case other
    }

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
    /// The last ids of these that were pushed: their jobs may still wait in the intake.
    private var pushedIDs = RecentIDs()
    /// The last time at which outcomes were read: what has ended since is not known.
    private var lastEnd: ContinuousClock.Instant?
    /// Whether outcomes are noted. Otherwise no host is known, and jobs come as they were read.
    private let isFollowed: Bool
    /// Jobs of a host that were pushed and have not ended.
    private struct Outstanding {
        struct Push {
            let number: Int
            let time: ContinuousClock.Instant
            /// Whether it went before its turn.
            let isEarly: Bool
        }

        /// The oldest first: the one that ends is taken to be the oldest.
        var pushes: ArraySlice<Push> = []
        /// How far the host has answered.
        var answer = JobQueue.HostAnswer.nothing
        /// First and last time at which it was known that first bytes had arrived, and no whole response.
        var firstBytes: (first: ContinuousClock.Instant, last: ContinuousClock.Instant)?

        /// Whether the first response takes long, from its first bytes on.
        var hasLongBody: Bool { firstBytes.map { $0.first.duration(to: $0.last) >= PushOrder.bodyPatience } ?? false }
    }

    private var outstanding: [String: Outstanding] = [:]
    /// Outstanding jobs that went before their turn, also of hosts that are not slow after all.
    private var earlyCount = 0
    /// Jobs that went before their turn and have ended.
    private(set) var endedEarly = 0
    /// Hosts of which the first job is to go before its turn, unless its turn comes sooner.
    private var untried: ArraySlice<String> = []
    /// Hosts of which a job has ended, and that have further jobs here or outstanding.
    private var known: Set<String> = []
    /// Number of the next push.
    private var nextPush = 0
    private var front = PushFront()
    /// Slow hosts with the mean time that a fetch takes, seconds.
    private var means: [String: Double] = [:]
    /// Waiting jobs.
    private(set) var count = 0
    private var bytes = 0

    /// Limits on waiting jobs.
    private static let limit = 20_000
    private static let byteLimit = 32 << 20
    /// Memory of a job beside its source, and of its labels, bytes, about.
    private static let overhead = (job: 1024, labels: Job.maximumLabels)
    /// Seconds from which a fetch is slow.
    private static let slow = 1.0
    /// Seconds above which all fetches count alike.
    private static let slowest = 3600.0
    /// Maximum number of slow hosts that are known.
    private static let hostLimit = 1000
    /// Waiting jobs from which a host has many: one more connection is little beside them.
    private static let many = 32
    /// Number of jobs at the beginning of which each host counts.
    private static let beginning = 500
    /// Outstanding jobs of a host up to which further ones go earlier: the usual limit on its requests at a time.
    /// Others would wait for their host.
    private static let outstandingLimit = 64
    /// Such jobs of a host that has not answered: it gets no more requests at a time then, and may never answer. Others
    /// would take places of the workers only to be given back.
    private static let firstLimit = HostLimits().firstConcurrency
    /// Maximum number of hosts of which it is asked at a time if they have answered.
    private static let questionLimit = 256
    /// Time after which a response takes long, from the first look that knows of its first bytes.
    private static let bodyPatience: Duration = .milliseconds(40)
    /// Weight of the last fetch in the mean.
    private static let weight = 0.25

    init(isFollowed: Bool = true) { self.isFollowed = isFollowed }

    var hasRoom: Bool { count < Self.limit && bytes < Self.byteLimit }

    /// Whether jobs of slow hosts wait here.
    func hasSlowJobs(at now: ContinuousClock.Instant = .now) -> Bool { !slowHosts(at: now).waiting.isEmpty }

    mutating func add(_ jobs: [JobBuilder.BuiltJob]) {
        for built in jobs {
            // A job that begins later says nothing about its host until then.
            let host = isFollowed && built.job?.notBefore == nil ? built.job?.host : nil
            let entry = Entry(built: built, host: host, size: Self.size(built))
            if let host {
                numbers[host, default: []].append(nextNumber + entries.count - next)
                let (waiting, read) = (numbers[host]?.count, nextNumber + entries.count - next)
                let isTried = waiting == Self.many || waiting == 1 && read < Self.beginning
                if isTried && isUnknown(host) { untried.append(host) }
            }
            if let id = Self.repeatableID(built) { ids[id, default: 0] += 1 }
            entries.append(entry)
            count += 1
            bytes += entry.size
        }
    }

    /// - Parameters:
    ///   - limit: maximum number of jobs.
    ///   - longFetches: jobs with long fetches that the workers run at a time beside others; 0 if that is unknown, and
    ///     no job goes before its turn then.
    /// - Returns: the next jobs: those that go before their turn, and those whose turn it is.
    mutating func take(
        _ limit: Int,
        longFetches: Int = 0,
        at now: ContinuousClock.Instant = .now
    ) -> (early: [JobBuilder.BuiltJob], due: [JobBuilder.BuiltJob]) {
        let early = takeEarly(limit, longFetches: longFetches, at: now)
        var due: [JobBuilder.BuiltJob] = []
        while early.count + due.count < limit, let host = untried.popFirst() {
            guard isUnknown(host), let built = takeFirst(of: host, isEarly: false, at: now) else { continue }
            due.append(built)
        }
        while early.count + due.count < limit, next < entries.count {
            if let entry = entries[next] {
                remove(entry, at: next, isEarly: false, at: now)
                due.append(entry.built)
            }
            next += 1
            nextNumber += 1
        }
        // Moved rarely: each move copies what is left.
        if next > 1000 && next > entries.count / 2 {
            entries.removeFirst(next)
            next = 0
        }
        return (early, due)
    }

    /// Whether no job of a host was pushed, as far as that is known.
    private func isUnknown(_ host: String) -> Bool { outstanding[host] == nil && !known.contains(host) }

    /// The slow hosts.
    private struct SlowHosts {
        /// Those with jobs that wait here and may be pushed, and the time that these take, seconds.
        var waiting: [(host: String, work: Double)] = []
        /// Jobs of slow hosts that are under way, as far as that is known.
        var underWay = 0
        /// Jobs of overdue hosts that may never answer, which are under way.
        var silent = 0
    }

    private func slowHosts(at now: ContinuousClock.Instant) -> SlowHosts {
        var slow = SlowHosts()
        func add(_ host: String, _ mean: Double, _ jobs: Outstanding) {
            let underWay = min(jobs.pushes.count, limit(of: host))
            if mayNeverAnswer(host) { slow.silent += underWay } else { slow.underWay += underWay }
            guard let numbers = numbers[host], jobs.pushes.count < limit(of: host) else { return }
            slow.waiting.append((host, mean * Double(numbers.count)))
        }
        for (host, mean) in means { add(host, mean, outstanding[host] ?? Outstanding()) }
        let passed = lastEnd.map { front.passed(at: min($0, now)) } ?? 0
        for (host, jobs) in outstanding where isUnjudged(host) {
            guard let first = jobs.pushes.first else { continue }
            if jobs.hasLongBody || first.number < passed { add(host, first.time.duration(to: now).inSeconds, jobs) }
        }
        return slow
    }

    /// Whether none of the jobs of a host has ended.
    private func isUnjudged(_ host: String) -> Bool { means[host] == nil && !known.contains(host) }

    /// Maximum number of outstanding jobs of a host up to which further ones go before their turn.
    private func limit(of host: String) -> Int {
        mayNeverAnswer(host) ? Self.firstLimit : Self.outstandingLimit
    }

    private func mayNeverAnswer(_ host: String) -> Bool {
        isUnjudged(host) && (outstanding[host]?.answer ?? .nothing) == .nothing
    }

    /// Hosts with waiting jobs of which none has ended, and of which it is to be asked how far they have answered.
    var unjudged: [String] {
        let hosts = outstanding.filter { isUnjudged($0.key) && numbers[$0.key] != nil }
        if hosts.count <= Self.questionLimit { return Array(hosts.keys) }
        // Two answers in a row judge a host. All are asked for at random, so that many hide none for long.
        let awaited = hosts.filter { $0.value.firstBytes != nil && !$0.value.hasLongBody }.keys
        let begun = Set(awaited.shuffled().prefix(Self.questionLimit * 3 / 4))
        let others = hosts.keys.shuffled().lazy.filter { !begun.contains($0) }
        return Array(begun) + others.prefix(Self.questionLimit - begun.count)
    }

    /// Whether it may be known soon of a host that it is slow.
    var mayFindSlowHosts: Bool {
        outstanding.contains { !$0.value.hasLongBody && isUnjudged($0.key) && numbers[$0.key] != nil }
    }

    /// Notes how far hosts have answered. A host whose first response takes long is known sooner than one whose job is
    /// overdue, while all others wait for their turn.
    mutating func answer(_ answers: [String: JobQueue.HostAnswer], at now: ContinuousClock.Instant = .now) {
        for (host, answer) in answers {
            outstanding[host]?.answer = answer
            guard answer == .firstBytes else {
                outstanding[host]?.firstBytes = nil
                continue
            }
            let first = outstanding[host]?.firstBytes?.first ?? now
            outstanding[host]?.firstBytes = (first, now)
        }
    }

    /// Jobs of the slow hosts, of each in proportion to the time that its waiting jobs take.
    ///
    /// - Parameters: those of `take`.
    mutating func takeEarly(
        _ limit: Int,
        longFetches: Int,
        at now: ContinuousClock.Instant = .now
    ) -> [JobBuilder.BuiltJob] {
        guard longFetches > 0, limit > 0 else { return [] }
        let slow = slowHosts(at: now)
        // Hosts that may never answer leave room for the others.
        let silent = min(slow.silent, longFetches / 2)
        // Jobs of hosts without an outcome count little as long as they wait for an answer. If all of these hosts
        // answer at once, the jobs take places of others: as many again at most.
        let limit = min(limit, longFetches - slow.underWay - silent, 2 * longFetches - earlyCount)
        guard limit > 0 else { return [] }
        // The part of silent hosts, by their work as that of each host.
        let unsure = slow.waiting.filter { mayNeverAnswer($0.host) }
        let others = slow.waiting.filter { !mayNeverAnswer($0.host) }
        let work = (unsure: unsure.reduce(0) { $0 + $1.work }, all: slow.waiting.reduce(0) { $0 + $1.work })
        let part = work.all > 0 ? Int((Double(limit) * work.unsure / work.all).rounded(.up)) : 0
        let silentPart = min(part, longFetches / 2 - silent)
        return take(limit - silentPart, of: others, at: now) + take(silentPart, of: unsure, at: now)
    }

    /// Jobs of hosts, of each in proportion to its work.
    private mutating func take(
        _ limit: Int,
        of hosts: [(host: String, work: Double)],
        at now: ContinuousClock.Instant
    ) -> [JobBuilder.BuiltJob] {
        let total = hosts.reduce(0) { $0 + $1.work }
        var taken: [JobBuilder.BuiltJob] = []
        for (host, work) in hosts.sorted(by: { ($1.work, $0.host) < ($0.work, $1.host) }) {
            let part = min(limit - taken.count, Int((Double(limit) * work / total).rounded(.up)))
            for _ in 0..<part {
                guard let built = takeFirst(of: host, isEarly: true, at: now) else { break }
                taken.append(built)
            }
        }
        return taken
    }

    /// The first waiting job of a host, if it may go before the jobs of others.
    private mutating func takeFirst(
        of host: String,
        isEarly: Bool,
        at now: ContinuousClock.Instant
    ) -> JobBuilder.BuiltJob? {
        guard outstanding[host]?.pushes.count ?? 0 < limit(of: host), let number = numbers[host]?.first else {
            return nil
        }
        let index = next + number - nextNumber
        guard let entry = entries[index], canMove(entry.built) else { return nil }
        remove(entry, at: index, isEarly: isEarly, at: now)
        return entry.built
    }

    /// Of two jobs with one id or key, the first one counts, so they keep their order.
    private func canMove(_ built: JobBuilder.BuiltJob) -> Bool {
        guard let job = built.job, job.idempotencyKey == nil else { return false }
        return Self.repeatableID(built).map { ids[$0] == 1 && !pushedIDs.contains($0) } ?? true
    }

    private mutating func remove(
        _ entry: Entry,
        at index: Int,
        isEarly: Bool,
        at now: ContinuousClock.Instant
    ) {
        entries[index] = nil
        count -= 1
        bytes -= entry.size
        if let id = Self.repeatableID(entry.built) {
            let rest = (ids[id] ?? 0) - 1
            ids[id] = rest > 0 ? rest : nil
            pushedIDs.add(id)
        }
        guard let host = entry.host else { return }
        // The entry is the first of its host, whether it is early or due.
        numbers[host]?.removeFirst()
        if numbers[host]?.isEmpty == true { numbers[host] = nil }
        let push = Outstanding.Push(number: nextPush, time: now, isEarly: isEarly)
        outstanding[host, default: Outstanding()].pushes.append(push)
        nextPush += 1
        if isEarly { earlyCount += 1 }
    }

    /// Notes that a job of a host has ended.
    mutating func end(_ host: String, _ outcome: Outcome, at now: ContinuousClock.Instant = .now) {
        guard isFollowed else { return }
        lastEnd = now
        let isUsual = means[host] == nil
        let pushed = outstanding[host]?.pushes.popFirst()
        if pushed?.isEarly == true { (earlyCount, endedEarly) = (earlyCount - 1, endedEarly + 1) }
        if outstanding[host]?.pushes.isEmpty == true { outstanding[host] = nil }
        known.insert(host)
        switch outcome {
        case .failed: means[host] = nil
        case .fetched(let seconds):
            // An early one has passed those that wait in the intake.
            if let pushed, isUsual, !pushed.isEarly, seconds < Self.slow { front.note(pushed.number, at: now) }
            // Found in a cache, if it took no time.
            if seconds > 0 { note(fetch: min(seconds, Self.slowest), of: host) }
        case .other: break
        }
        if outstanding[host] == nil && numbers[host] == nil { known.remove(host) }
    }

    private mutating func note(fetch seconds: Double, of host: String) {
        let mean = means[host].map { $0 + (seconds - $0) * Self.weight } ?? seconds
        means[host] = mean >= Self.slow && isKnown(host) ? mean : nil
    }

    /// Whether there is a place for a slow host. One without jobs loses its place to it.
    private mutating func isKnown(_ host: String) -> Bool {
        if means[host] != nil || means.count < Self.hostLimit { return true }
        let unused = means.keys.first { numbers[$0] == nil && outstanding[$0] == nil }
        guard let unused else { return false }
        means[unused] = nil
        return true
    }

    private static func repeatableID(_ built: JobBuilder.BuiltJob) -> String? {
        built.hasUniqueID ? nil : built.job?.id
    }

    private static func size(_ built: JobBuilder.BuiltJob) -> Int {
        switch built {
        case .job(let job, _):
            overhead.job + (job.labels == nil ? 0 : overhead.labels) + job.source.utf8.count
        case .line(let line): overhead.job + line.count
        }
    }
}

/// Ids of the last jobs that were pushed, as many as may be outstanding, by their hashes.
private struct RecentIDs {
    private var hashes: ArraySlice<Int> = []
    private var counts: [Int: Int] = [:]

    private static let limit = BatchRun.outstandingLimit + BatchRun.readAtOnce

    func contains(_ id: String) -> Bool { counts[id.hashValue] != nil }

    mutating func add(_ id: String) {
        hashes.append(id.hashValue)
        counts[id.hashValue, default: 0] += 1
        guard hashes.count > Self.limit, let oldest = hashes.popFirst() else { return }
        let rest = (counts[oldest] ?? 0) - 1
        counts[oldest] = rest > 0 ? rest : nil
    }
}
