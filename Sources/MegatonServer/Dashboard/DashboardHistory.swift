internal import MegatonCluster
internal import MegatonCore

/// The state of a queue at a time, for the charts of the dashboard.
struct DashboardPoint: Encodable, Sendable, Equatable {
    /// Seconds since 1970.
    let time: Int
    /// Jobs that wait for a worker: pushed, staged or ready.
    let waiting: Int
    let running: Int
    /// Jobs that wait for a time or for their host.
    let delayed: Int
    /// Workers that have missed at most two heartbeats.
    let workers: Int
    /// Jobs per second since the point before; nil if that is too long ago, or the counters began anew.
    var done: Double?
    var failed: Double?
    var retried: Double?
    /// Requests to origins per second.
    var fetches: Double?
    /// Renditions made per second.
    var renders: Double?
}

/// Counters since the queue was created, of which the dashboard shows the rates.
struct DashboardCounters: Sendable, Equatable {
    var done = 0
    var failed = 0
    var retried = 0
    var fetches = 0
    var renders = 0
}

/// The points of the last hour. There are none for the time in which the cluster could not be read.
struct DashboardHistory: Sendable {
    /// Time between two points.
    static let interval: Duration = .seconds(10)
    /// Maximum number of points.
    static let capacity = 360
    /// Time between two points above which there is a gap, and no rate.
    static let longestStep: Duration = .seconds(30)
    /// Age at which a point is forgotten.
    private static let maximumAge = 3_600

    /// The oldest first.
    private(set) var points: [DashboardPoint] = []
    private var last: (counters: DashboardCounters, at: ContinuousClock.Instant)?

    /// Adds a point, and its rates since the one before.
    ///
    /// - Parameter time: seconds since 1970, for people; differences are measured by the other clock.
    mutating func add(
        _ status: ClusterStatus,
        _ counters: DashboardCounters,
        time: Int,
        at now: ContinuousClock.Instant
    ) {
        var point = DashboardPoint(
            time: time,
            waiting: status.intake + status.staged + status.ready,
            running: status.running,
            delayed: status.delayed + status.held,
            workers: status.livingWorkers.count
        )
        if let last, last.at.duration(to: now) <= Self.longestStep {
            let seconds = Double(last.at.duration(to: now).wholeMilliseconds) / 1000
            func rate(_ counter: KeyPath<DashboardCounters, Int>) -> Double? {
                let difference = counters[keyPath: counter] - last.counters[keyPath: counter]
                return seconds > 0 && difference >= 0 ? Double(difference) / seconds : nil
            }
            point.done = rate(\.done)
            point.failed = rate(\.failed)
            point.retried = rate(\.retried)
            point.fetches = rate(\.fetches)
            point.renders = rate(\.renders)
        }
        last = (counters, now)
        points.append(point)
        // The clock of the machine may have been set back: the number of points is bounded in any case.
        points.removeFirst(max(points.count - Self.capacity, 0))
        points.removeFirst(points.prefix { $0.time < time - Self.maximumAge }.count)
    }
}

/// The speeds of the batches that the dashboard shows, over the last minute.
struct BatchPaces: Sendable {
    private struct Mark: Sendable {
        let ended: Int
        let at: ContinuousClock.Instant
    }

    /// Maximum number of marks of a batch.
    private static let capacity = 30
    /// Time over which a speed is measured.
    private static let span: Duration = .seconds(60)
    /// Shortest time over which it can be.
    private static let shortest: Duration = .seconds(4)

    private var marks: [String: [Mark]] = [:]

    /// Remembers the ended jobs of each batch, and forgets batches that are not among them.
    mutating func add(_ ended: [(batch: String, ended: Int)], at now: ContinuousClock.Instant) {
        var kept: [String: [Mark]] = [:]
        for (batch, number) in ended {
            var all = marks[batch] ?? []
            // A batch of the same name has begun anew.
            if let last = all.last, last.ended > number { all = [] }
            all.append(Mark(ended: number, at: now))
            all.removeFirst(all.prefix { $0.at.duration(to: now) > Self.span }.count)
            all.removeFirst(max(all.count - Self.capacity, 0))
            kept[batch] = all
        }
        marks = kept
    }

    /// Jobs of the batch that end in a second; nil if it is not known yet.
    func speed(of batch: String) -> Double? {
        guard let all = marks[batch], let first = all.first, let last = all.last else { return nil }
        let time = first.at.duration(to: last.at)
        guard time >= Self.shortest else { return nil }
        return Double(last.ended - first.ended) * 1000 / Double(time.wholeMilliseconds)
    }
}
