internal import MegatonPipeline

/// Limit on the jobs that are ready or running at a time: about two seconds of work.
///
/// It is small, so that a batch of ten that arrives behind a million is done in seconds: jobs in the intakes are taken
/// by weight, ready jobs go first come, first served. Up to `limit`, it is never smaller than two jobs for each place
/// in a worker, so that no place waits for the coordinator. Running jobs beyond the places have left these to others,
/// as their fetches take long: they do not count.
struct AdmissionWindow: Sendable {
    /// The largest size: an admitted job costs its JSON and about 200 bytes.
    let limit: Int
    private var places = FleetPlaces()
    /// Jobs that run.
    private var running = 0
    /// Workers that have signed on.
    private(set) var workers = 0
    /// Sources of a pack, as of those that were admitted last. At first, the usual number of `megaton submit`.
    private var packSize = 64
    /// Jobs that recently ended per second.
    private var rate: Double = 0
    /// Observations of the last `span`, and the one before, which the rate is measured from.
    private var samples: [(ended: Int, at: ContinuousClock.Instant)] = []
    private var seen: Int?
    /// Whether jobs have ended between the last two observations: there will be room soon.
    private(set) var isMoving = false
    /// When there was some room for the first time, and not the least that is worth a round.
    private var waiting: ContinuousClock.Instant?

    /// Smallest size, in all shards together.
    private static let smallest = 64
    /// Smallest size in one of many shards.
    private static let smallestOfShard = 8
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

    /// A shard has two jobs for each place that is its part of the fleet: together the shards would otherwise have as
    /// many for each place as there are shards, and a small batch would wait behind them. If other shards have no jobs,
    /// more run: the ready ones are as many as that part even then.
    var size: Int {
        let least = max(Self.smallest / places.shardCount, Self.smallestOfShard)
        // Without a known place, nothing is known of jobs that have left theirs.
        let placeless = slots > 0 ? max(0, running - slots) : 0
        return placeless + min(limit, max(least, max(slots, running - placeless) + slots, Int(Self.seconds * rate)))
    }

    private var slots: Int { places.ofShard }

    /// Jobs that may become ready in addition to the present ones.
    struct Room: Equatable {
        var jobs: Int
        /// Sources of packs, which have room of their own as soon as there are packs; nil if they are among `jobs`.
        var packed: Int?

        var largest: Int { max(jobs, packed ?? jobs) }

        static func - (room: Room, count: (jobs: Int, packed: Int)) -> Room {
            guard let packed = room.packed else { return Room(jobs: room.jobs - count.jobs - count.packed) }
            return Room(jobs: room.jobs - count.jobs, packed: packed - count.packed)
        }
    }

    /// The room for further jobs. A pack is as many as its sources, and one if it runs: it has its place already, and
    /// leaves it to ready jobs.
    ///
    /// A pack is in one worker, which uses all of its free places for it. So there may be two for each worker, even if
    /// few packs fill the window: otherwise they would be in some of the workers, and the others idle.
    ///
    /// Packs do not keep other jobs out, or a batch of ten would wait in its intake until whole packs have ended, also
    /// if its priority is `high`: for those, each pack is one job, and one for each source that it splits off. Neither
    /// do other jobs keep packs out: at most half of the window counts against them; and if they fill all places, half
    /// of these may have a pack, as of ``beside(_:_:)``.
    ///
    /// - Parameters:
    ///   - jobs: number of jobs that are ready or running.
    ///   - running: number of those that run.
    ///   - sources: number of the sources of all. Packs that run are taken to be as large as the others.
    func room(jobs: Int, running: Int, sources: Int, workers: Int) -> Room {
        let average = sources / max(jobs, 1)
        guard sources > jobs else { return Room(jobs: size - jobs) }
        let packs = (2 * workers + places.shardCount - 1) / places.shardCount
        let all = max(size, average > 1 ? min(limit, packs) * average : 0)
        let further = max(0, sources - jobs) * max(0, jobs - running) / max(jobs, 1)
        return Room(
            jobs: size - jobs,
            packed: max(all - min(jobs, size / 2) - further, beside(jobs, sources - jobs))
        )
    }

    /// The room for packs beside jobs that fill all places. A pack has one place among them, and runs one source at a
    /// time: without this, a few packs would use up the room, and their batch would have a hundredth of the places.
    ///
    /// - Parameter further: number of the sources of packs beyond one for each.
    private func beside(_ jobs: Int, _ further: Int) -> Int {
        // As many as if all were whole: fewer than there are, as those that run have fewer sources left.
        let packs = (further + packSize - 2) / (packSize - 1)
        if slots == 0 || jobs - packs < slots { return .min }
        return (max(1, slots / 2) - packs) * packSize
    }

    /// Free room at which a round is worth its cost. If the limit leaves little more than one job for each place, it is
    /// 1, so that no place waits for others to become free.
    var leastRoom: Int { max(1, min(size / Self.step, (size - max(slots, running)) / 2)) }

    /// The room that is worth a round: for jobs as of ``admits(_:at:)``, for packs ``leastRoom``. Nil if there is none.
    mutating func admits(_ room: Room, at now: ContinuousClock.Instant) -> Room? {
        let jobs = admits(room.jobs, at: now) ? room.jobs : 0
        guard let packed = room.packed else { return jobs > 0 ? room : nil }
        let admitted = Room(jobs: jobs, packed: packed >= leastRoom ? packed : 0)
        return admitted.largest > 0 ? admitted : nil
    }

    /// The part of a room that is worth a round which takes place anyway; nil if there is none.
    func further(_ room: Room) -> Room? {
        func worth(_ count: Int) -> Int { count < leastRoom ? 0 : count }
        let further = Room(jobs: worth(room.jobs), packed: room.packed.map(worth))
        return further.largest > 0 ? further : nil
    }

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

    /// - Parameters:
    ///   - ended: number of jobs that have ended since the queue was created.
    ///   - running: number of jobs that run.
    ///   - workers: number of workers that have signed on.
    mutating func observe(ended: Int, running: Int = 0, workers: Int = 0, at now: ContinuousClock.Instant) {
        (self.running, self.workers) = (running, workers)
        isMoving = seen.map { $0 < ended } ?? false
        seen = ended
        if let last = samples.last, last.at.duration(to: now) < Self.shortest { return }
        samples.append((ended, now))
        while samples.count > 2, samples[1].at.duration(to: now) >= Self.span { samples.removeFirst() }
        let first = samples[0]
        let elapsed = max(first.at.duration(to: now), Self.span)
        rate = max(Double(max(0, ended - first.ended)) / elapsed.inSeconds, rate * Self.decay)
    }

    mutating func observe(_ places: FleetPlaces) { self.places = places }

    /// - Parameter packs: numbers of the sources of packs that are admitted.
    mutating func observe(packs: [Int]) {
        if !packs.isEmpty { packSize = max(2, (packSize + packs.reduce(0, +) / packs.count) / 2) }
    }
}
