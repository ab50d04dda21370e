/// Throttle for claims: a worker that holds few jobs asks for more at once; otherwise it waits after the last claim
/// until several places are free, which one call then fills.
struct ClaimThrottle {
    /// Pause between two claims of a worker that has enough to do. The jobs that it holds last longer.
    static let pause: Duration = .milliseconds(20)
    /// Interval at which a waiting worker checks whether it holds few jobs by now.
    static let step: Duration = .milliseconds(4)

    private let concurrency: Int
    private var last: (at: ContinuousClock.Instant, wasEmpty: Bool)?
    /// Time since which ready jobs have been left to other workers.
    private var leftSince: ContinuousClock.Instant?
    /// Number of claims that are to follow a token.
    private var announced = 0

    /// Claims that follow a token after one without a token has found nothing. The next one shows whether jobs are
    /// ready by now without them.
    private static let announcedAtOnce = 8

    init(concurrency: Int) { self.concurrency = concurrency }

    /// Whether ready jobs were left to other workers although this worker had a place for them.
    var hasLeftJobs: Bool { leftSince != nil }

    /// Whether the other workers have had their time: any worker with a free place may now take the rest.
    func ignoresShare(at now: ContinuousClock.Instant) -> Bool {
        leftSince.map { $0 + Self.pause <= now } ?? false
    }

    /// The time of the next claim.
    ///
    /// - Parameters:
    ///   - activeCount: claimed jobs that occupy a place.
    ///   - wasNotified: whether a wake token has arrived.
    /// - Returns: nil to claim at once.
    func next(activeCount: Int, wasNotified: Bool) -> ContinuousClock.Instant? {
        guard let last, !wasNotified else { return nil }
        // By then the other workers have woken up, or they are not going to.
        if let leftSince { return leftSince + Self.pause }
        // After a claim that found nothing, the end of a job makes nothing ready; at most this worker's share has
        // grown. If it makes the turn of a host come, `releasePermit` pushes a token.
        if !last.wasEmpty && activeCount <= concurrency / 2 { return nil }
        return last.at + Self.pause
    }

    /// Whether to wait for a token after a claim that has left only jobs with tokens: if workers with short jobs take
    /// each job as soon as it is ready, most claims without one find nothing.
    var prefersTokens: Bool { announced > 0 && leftSince == nil }

    /// - Parameters:
    ///   - left: ready jobs that were left to other workers.
    ///   - wasNotified: whether a wake token had arrived.
    mutating func claimed(
        _ count: Int,
        left: Int = 0,
        wasNotified: Bool = false,
        at instant: ContinuousClock.Instant
    ) {
        last = (instant, count == 0)
        leftSince = left > 0 ? leftSince ?? instant : nil
        if wasNotified {
            announced = max(0, announced - 1)
        } else if count == 0 && left == 0 {
            announced = Self.announcedAtOnce
        }
    }

    /// Forgets the jobs that were left to other workers.
    ///
    /// - Returns: whether there were any, so that another worker has to learn of them.
    mutating func forgetLeftJobs() -> Bool {
        defer { leftSince = nil }
        return leftSince != nil
    }
}
