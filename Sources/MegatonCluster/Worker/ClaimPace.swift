/// When a worker asks for jobs: at once where it has little in hand, else so long after the last time that several places
/// have become free, which one call fills.
struct ClaimPace {
    /// Between two claims of a worker that has enough to do. What it has in hand lasts for longer.
    static let pause: Duration = .milliseconds(20)
    /// How soon it is looked again whether there is little in hand by now.
    static let step: Duration = .milliseconds(4)

    private let concurrency: Int
    private var last: (at: ContinuousClock.Instant, wasEmpty: Bool)?
    /// Since when ready jobs have been left to other workers.
    private var leftSince: ContinuousClock.Instant?

    init(concurrency: Int) { self.concurrency = concurrency }

    /// Whether ready jobs were left to other workers, though there was a place for them.
    var hasLeftJobs: Bool { leftSince != nil }

    /// Whether the other workers have had their time: any worker with a free place takes the rest.
    func ignoresShare(at now: ContinuousClock.Instant) -> Bool {
        leftSince.map { $0 + Self.pause <= now } ?? false
    }

    /// When to ask.
    ///
    /// - Parameters:
    ///   - inHand: jobs that the worker has not ended yet.
    ///   - isCalled: whether a token says that there is something to claim.
    /// - Returns: nil for at once.
    func next(inHand: Int, isCalled: Bool) -> ContinuousClock.Instant? {
        guard let last, !isCalled else { return nil }
        // The others are awake by then, or are not going to be.
        if let leftSince { return leftSince + Self.pause }
        // After a look that found nothing the end of a job makes nothing ready: at the most our share has grown.
        if !last.wasEmpty && inHand <= concurrency / 2 { return nil }
        return last.at + Self.pause
    }

    /// - Parameter left: ready jobs that were left to other workers.
    mutating func claimed(_ count: Int, left: Int = 0, at instant: ContinuousClock.Instant) {
        last = (instant, count == 0)
        leftSince = left > 0 ? leftSince ?? instant : nil
    }
}
