/// Intervals at which Redis is asked for the outcomes of a batch: short after one has come, and longer while none does,
/// so that a thousand readers of idle batches cost a few thousand commands per second.
struct OutcomePace: Sendable {
    private static let shortest: Duration = .milliseconds(50)
    private static let longest: Duration = .seconds(1)

    private var interval = Self.shortest

    /// The pause before the next question; each is twice as long as the one before.
    mutating func next() -> Duration {
        defer { interval = min(interval * 2, Self.longest) }
        return interval
    }

    /// Begins again with the shortest pause.
    mutating func reset() { interval = Self.shortest }
}
