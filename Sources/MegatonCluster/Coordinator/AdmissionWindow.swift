internal import MegatonPipeline

/// Limit on the jobs that are ready or running at a time: about two seconds of work.
///
/// It is small, so that a batch of ten that arrives behind a million is done in seconds: jobs in the intakes are taken
/// by weight, ready jobs go first come, first served. Up to `limit`, it is never smaller than two jobs for each place
/// in a worker, so that no place waits for the coordinator.
struct AdmissionWindow: Sendable {
    /// The largest size: an admitted job costs its JSON and about 200 bytes.
    let limit: Int
    private var slots = 0
    /// Jobs that recently ended per second.
    private var rate: Double = 0
    /// Observations of the last `span`, and the one before, which the rate is measured from.
    private var samples: [(ended: Int, at: ContinuousClock.Instant)] = []
    private var seen: Int?
    /// Whether jobs have ended between the last two observations: there will be room soon.
    private(set) var isMoving = false
    /// When there was some room for the first time, and not the least that is worth a round.
    private var waiting: ContinuousClock.Instant?

    /// Size while no worker has signed on.
    private static let smallest = 64
    private static let seconds: Double = 2
    /// Observations that are closer together do not change the rate.
    private static let shortest: Duration = .milliseconds(200)
    /// Time over which the rate is measured. In a fleet whose jobs begin and end together, that of a shorter time is
    /// several times too high: the window would close for seconds, also for a `high` job, until it has shrunk again.
    private static let span: Duration = .seconds(1)
    /// Part of the rate that is left after an observation of a lower rate: a pause of the workers must not close the
    /// window.
    private static let decay = 0.9

    /// Divisor of the window: this part of it must be free before more jobs are admitted. A round costs as much for one
    /// job as for many, and ready jobs last much longer than a round.
    private static let step = 8

    /// Longest time for which free room waits for more. If jobs take seconds, the eighth of the window that ends next
    /// may take minutes, and a `high` job would wait for it.
    private static let longestWait: Duration = .milliseconds(100)

    init(limit: Int) { self.limit = limit }

    var size: Int { min(limit, max(Self.smallest, 2 * slots, Int(Self.seconds * rate))) }

    /// Jobs that may become ready in addition to the present ones; a pack is as many as its sources, and one if it
    /// runs: it has its place already, and leaves it to ready jobs.
    ///
    /// A pack is in one worker, which uses all of its free places for it. So there may be two for each worker, even if
    /// few packs fill the window: otherwise they would be in some of the workers, and the others idle.
    ///
    /// - Parameters:
    ///   - jobs: number of jobs that are ready or running.
    ///   - running: number of those that run.
    ///   - sources: number of the sources of all. Packs that run are taken to be as large as the others.
    func room(jobs: Int, running: Int, sources: Int, workers: Int) -> Int {
        let average = sources / max(jobs, 1)
        let further = max(0, sources - jobs) * max(0, jobs - running) / max(jobs, 1)
        return max(size, average > 1 ? min(limit, 2 * workers) * average : 0) - jobs - further
    }

    /// Free room at which a round is worth its cost. If the limit leaves little more than one job for each place, it is
    /// 1, so that no place waits for others to become free.
    var leastRoom: Int { max(1, min(size / Self.step, (size - slots) / 2)) }

    /// Whether a round is worth its cost: there is ``leastRoom``, or less of it for a while.
    mutating func admits(_ room: Int, at now: ContinuousClock.Instant) -> Bool {
        if room > 0 && room < leastRoom {
            let since = waiting ?? now
            let isOver = since.duration(to: now) >= Self.longestWait
            // After a round, the time begins anew: a fast queue always has some room.
            waiting = isOver ? nil : since
            return isOver
        }
        waiting = nil
        return room > 0
    }

    /// - Parameter ended: number of jobs that have ended since the queue was created.
    mutating func observe(ended: Int, at now: ContinuousClock.Instant) {
        isMoving = seen.map { $0 < ended } ?? false
        seen = ended
        if let last = samples.last, last.at.duration(to: now) < Self.shortest { return }
        samples.append((ended, now))
        while samples.count > 2, samples[1].at.duration(to: now) >= Self.span { samples.removeFirst() }
        let first = samples[0]
        let elapsed = max(first.at.duration(to: now), Self.span)
        rate = max(Double(max(0, ended - first.ended)) / elapsed.inSeconds, rate * Self.decay)
    }

    /// - Parameter slots: places in all workers.
    mutating func observe(slots: Int) { self.slots = slots }
}
