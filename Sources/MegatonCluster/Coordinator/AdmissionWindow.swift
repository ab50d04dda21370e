internal import MegatonPipeline

/// How many jobs may be ready or running at a time: about two seconds of work.
///
/// Small, so that a batch of ten which arrives behind a million is done in seconds: what waits in the intakes is taken
/// by weight, what is ready goes first come first served. Never smaller than two jobs for each place in a worker, so
/// that none of them waits for the coordinator.
struct AdmissionWindow: Sendable {
    /// The largest size: a job costs its JSON and about 200 bytes while it is admitted.
    let limit: Int
    private var slots = 0
    /// Jobs that ended in a second, lately.
    private var rate: Double = 0
    private var last: (ended: Int, at: ContinuousClock.Instant)?
    private var seen: Int?
    /// Whether jobs have ended between the last two looks: there will be room soon.
    private(set) var isMoving = false

    /// Where nobody has signed on yet.
    private static let smallest = 64
    private static let seconds: Double = 2
    /// Two looks that are closer together say nothing.
    private static let shortest: Duration = .milliseconds(200)
    /// How much of the rate is left after a look that saw less: a pause of the workers must not close the window.
    private static let decay = 0.9

    /// What has to be free before more is admitted, as a part of the window: a round costs as much for one job as for many,
    /// and what is ready lasts for much longer than it takes.
    private static let step = 8

    init(limit: Int) { self.limit = limit }

    var size: Int { min(limit, max(Self.smallest, 2 * slots, Int(Self.seconds * rate))) }

    /// Jobs for which there must be room before a round is worth its cost. Where the limit leaves little more than a job for
    /// each place, that is one: no place waits for others to become free.
    var leastRoom: Int { max(1, min(size / Self.step, (size - slots) / 2)) }

    /// - Parameter ended: how many jobs have ended since the queue was made.
    mutating func observe(ended: Int, at now: ContinuousClock.Instant) {
        isMoving = seen.map { $0 < ended } ?? false
        seen = ended
        guard let last else {
            last = (ended, now)
            return
        }
        let elapsed = last.at.duration(to: now)
        guard elapsed >= Self.shortest else { return }
        rate = max(Double(max(0, ended - last.ended)) / elapsed.inSeconds, rate * Self.decay)
        self.last = (ended, now)
    }

    /// - Parameter slots: places in all workers.
    mutating func observe(slots: Int) { self.slots = slots }
}
