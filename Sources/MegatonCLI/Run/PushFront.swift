/// How far the workers have come: the jobs of a batch are pushed with numbers, and run about in this order.
///
/// A job is overdue if one that was pushed well after it ended a while ago. Times from push to end would not do: each
/// job of a chunk waits longer than the one before.
struct PushFront {
    /// The highest number of a job that had ended by a time, in the time of patience, the oldest first.
    private var steps: ArraySlice<(number: Int, time: ContinuousClock.Instant)> = []
    /// The highest number of a job that ended longer ago.
    private var passed = -1

    /// Time for which a job may run longer than one that was pushed after it. Short, as the jobs of a host that takes
    /// many seconds should begin as soon as possible, and those of one that answers a little later come to no harm.
    private static let patience: Duration = .milliseconds(100)
    /// Numbers by which jobs may end earlier than others, as many as a few workers run at a time.
    private static let spread = 128
    /// Interval of two steps.
    private static let interval: Duration = .milliseconds(10)

    /// Notes that a job has ended.
    mutating func note(_ number: Int, at now: ContinuousClock.Instant) {
        guard number > steps.last?.number ?? passed else { return }
        if let last = steps.last, last.time.duration(to: now) < Self.interval {
            steps[steps.endIndex - 1].number = number
        } else {
            steps.append((number, now))
        }
        let old = steps.prefix { isOld($0.time, at: now) }
        if let last = old.last { passed = last.number }
        steps.removeFirst(old.count)
    }

    private func isOld(_ time: ContinuousClock.Instant, at now: ContinuousClock.Instant) -> Bool {
        time.duration(to: now) >= Self.patience
    }

    /// The number below which jobs that have not ended are overdue.
    func passed(at now: ContinuousClock.Instant) -> Int {
        (steps.last { isOld($0.time, at: now) }?.number ?? passed) - Self.spread
    }
}
