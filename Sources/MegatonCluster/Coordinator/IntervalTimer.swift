/// Timer for work that a loop does at most once in an interval.
struct IntervalTimer {
    private let interval: Duration
    private var next: ContinuousClock.Instant

    init(_ interval: Duration, isDueAtOnce: Bool = false) {
        self.interval = interval
        next = isDueAtOnce ? .now : .now + interval
    }

    /// Whether the work is due. If so, it is due again an interval later.
    mutating func isDue(at now: ContinuousClock.Instant) -> Bool {
        guard now >= next else { return false }
        next = now + interval
        return true
    }
}
