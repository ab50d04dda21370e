/// Decides how many jobs of a batch wait in its intake, where the order of jobs can no longer be changed: as few as
/// keep the workers busy until the next look.
struct IntakeTarget {
    private var size = Self.smallest
    /// Jobs for which there was room at the last look, and that were not pushed since.
    private var room = Self.smallest
    /// Jobs in an entry of the intake: more than one with packs.
    private var packSize = 1
    private var lastLook: ContinuousClock.Instant?
    /// Looks in a row that found more than half of the size.
    private var fullLooks = 0
    /// Jobs with long fetches that the workers run at a time beside others, as far as that is known.
    private(set) var longFetches = 0
    private var placesSeen: ContinuousClock.Instant?
    private var hasHadWorkers = false
    /// Jobs that were pushed in their turn, and when the first of them was.
    private var pushed = 0
    private var start: ContinuousClock.Instant?
    private var hostsAsked: ContinuousClock.Instant?
    private var canAskHosts = true

    private static let smallest = 128
    private static let largest = 20_000
    /// Time after the first push to workers in which a few jobs for each place are outstanding: slow hosts are found in
    /// it, and their jobs would wait their turn if they were ready already.
    private static let startTime: Duration = .milliseconds(1200)
    /// Interval at which hosts are asked for later.
    private static let askInterval: Duration = .milliseconds(250)
    /// Age from which the number of the workers' places is too old: while there are none, at the beginning, in which
    /// more workers may come, and later.
    private static let placesAge: (none: Duration, start: Duration, later: Duration) = (
        .milliseconds(100), .milliseconds(500), .seconds(2)
    )
    /// Looks after which a size is too large: about a second, at the beginning less.
    private static let tooManyLooks = 20
    /// Time in which an intake of the right size does not run out. One that ran out later had too few jobs, as of a
    /// list that comes slowly.
    private static let span: Duration = .seconds(1)

    /// Whether there is room for further jobs.
    var hasRoom: Bool { room > 0 }

    /// Whether jobs wait for the end of others, although the intake may be empty.
    ///
    /// - Parameter ended: number of the jobs that were pushed in their turn and have ended.
    func isHeldBack(ended: Int, at now: ContinuousClock.Instant) -> Bool {
        canAskHosts && isStarting(at: now) && pushed > startLimit && ended < pushed - startLimit
    }

    /// Whether it is time to ask how far hosts have answered: at each look at the beginning, and now and then later.
    mutating func asksHosts(at now: ContinuousClock.Instant) -> Bool {
        guard canAskHosts else { return false }
        let isSoon = hostsAsked.map { $0.duration(to: now) < Self.askInterval } ?? false
        guard isStarting(at: now) || !isSoon else { return false }
        hostsAsked = now
        return true
    }

    /// Hosts are not asked for any more.
    mutating func asksNoHosts() { canAskHosts = false }

    /// Number of jobs to push at once.
    func chunk(at now: ContinuousClock.Instant) -> Int {
        min(size, isStarting(at: now) ? max(Self.smallest, startLimit / 2) : BatchRun.readAtOnce, BatchRun.readAtOnce)
    }

    func isStarting(at now: ContinuousClock.Instant) -> Bool {
        start.map { $0.duration(to: now) < Self.startTime } ?? true
    }

    private var startLimit: Int { max(Self.smallest, longFetches) }

    mutating func push(_ jobs: Int, in entries: Int, at now: ContinuousClock.Instant) {
        if start == nil { start = now }
        room -= jobs
        pushed += jobs
        if entries > 0 { packSize = max(1, jobs / entries) }
    }

    /// Grows if an intake was found empty soon, and shrinks if all stay more than half full.
    ///
    /// - Parameter waiting: entries in the intake of each shard. The emptiest decides: another one may be closed.
    mutating func observe(waiting: [Int], at now: ContinuousClock.Instant) {
        let least = (waiting.min() ?? 0) * waiting.count * packSize
        fullLooks = least > size / 2 ? fullLooks + 1 : 0
        let isLargeEnough = isStarting(at: now) && size >= startLimit
        if least == 0 && !isLargeEnough && lastLook.map({ $0.duration(to: now) < Self.span }) ?? true {
            size = min(2 * size, Self.largest)
        } else if fullLooks >= Self.tooManyLooks {
            (size, fullLooks) = (max(size / 2, Self.smallest), 0)
        }
        (room, lastLook) = (size - least, now)
    }

    /// Whether the number of places is needed also if no host is slow.
    func needsPlaces(at now: ContinuousClock.Instant) -> Bool { longFetches == 0 || isStarting(at: now) }

    func placesAreOld(at now: ContinuousClock.Instant) -> Bool {
        let age = Self.placesAge
        let limit = longFetches == 0 ? age.none : isStarting(at: now) ? age.start : age.later
        return placesSeen.map { $0.duration(to: now) >= limit } ?? true
    }

    /// - Parameter longFetches: 0 if there are no workers. The batch begins when the first ones have come.
    mutating func observe(longFetches: Int, at now: ContinuousClock.Instant) {
        if !hasHadWorkers && longFetches > 0 && start != nil { start = now }
        (self.longFetches, placesSeen) = (longFetches, now)
        hasHadWorkers = hasHadWorkers || longFetches > 0
    }
}
