/// Something that a loop does now and then, at the earliest after an interval.
struct Regularly {
    private let interval: Duration
    private var next: ContinuousClock.Instant

    init(_ interval: Duration, isDueAtOnce: Bool = false) {
        self.interval = interval
        next = isDueAtOnce ? .now : .now + interval
    }

    /// Whether it is time; the next time is an interval later then.
    mutating func isDue(at now: ContinuousClock.Instant) -> Bool {
        guard now >= next else { return false }
        next = now + interval
        return true
    }
}
