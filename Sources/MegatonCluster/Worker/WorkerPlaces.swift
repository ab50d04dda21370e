import Synchronization

/// The places of a worker, for which the claim loops of its shards take turns.
///
/// A loop reserves the free places, claims jobs for them, and gives back those that its shard could not fill. A loop
/// that finds no place, or finds that another one waits, waits too; the one that has waited longest is next. So each
/// shard gets its turn, and a shard that does not answer holds the places of one claim at most. The claims of a shard
/// that answers slowly hold no more than its part of the places.
///
/// A job whose fetch takes long leaves its place to another one: it uses no processor, and a list with many slow hosts
/// would stop all others. The number of such jobs has a limit, as each occupies memory and a connection.
final class WorkerPlaces: Sendable {
    /// Number of jobs that may be in progress at a time, beside those that have left their places.
    let count: Int
    /// Whether places are free only when jobs have ended in Redis too.
    private let waitsForSettlements: Bool
    /// Limits the jobs while the worker's disk is full.
    let disk: DiskPause
    private let state = Mutex(State())

    /// Longest claim after which the next one of the shard may reserve all free places: short beside the work of a job.
    static let shortClaim: Duration = .milliseconds(20)

    /// Bounds of the time after which a fetch takes long. The lower one is long beside the work of a job; beyond the
    /// upper one, the host is slow.
    static let longFetchBounds: ClosedRange<Duration> = .milliseconds(250)...(.seconds(1))
    /// Multiple of the usual time of a fetch after which one takes long, within these bounds: most hosts vary by less.
    static let longFetchFactor = 4
    /// Part of that time after which the others of a host leave their places, too, if one of them takes long, but later
    /// than usual ones end: a worker has many jobs of a slow host at once, and all of its places would wait with them.
    static let furtherFetchDivisor = 8
    /// Interval at which a worker without a free place looks for such fetches.
    static let lookInterval: Duration = .milliseconds(25)

    private struct State {
        /// The jobs of each shard.
        var members: [RunningJobs] = []
        /// Calls that ask each shard for its ready jobs.
        var readiness: [@Sendable (Job.Priority) async -> JobQueue.WaitingJobs] = []
        /// Places for which each shard is claiming.
        var reserved: [Int] = []
        /// When the last claim of each shard began.
        var begun: [ContinuousClock.Instant] = []
        /// Whether it took long.
        var isSlow: [Bool] = []
        /// Shards that wait for a place, the longest first.
        var waiting: [Int] = []
    }

    /// - Parameter waitsForSettlements: true for a worker of suspects. Otherwise a job whose work is done holds no
    ///   place while it is being settled, up to the number of jobs that one call settles.
    init(count: Int, waitsForSettlements: Bool, disk: DiskPause = DiskPause()) {
        self.count = count
        self.waitsForSettlements = waitsForSettlements
        self.disk = disk
    }

    /// Number of shards that share the places.
    var shardCount: Int { state.withLock { $0.members.count } }

    /// Whether several shards share the places.
    var isShared: Bool { shardCount > 1 }

    /// See `ShardLayout.idleFactor(of:)`.
    var idleFactor: Int { ShardLayout.idleFactor(of: shardCount) }

    /// Adds a shard.
    ///
    /// - Parameter waitingJobs: asks the shard for its ready jobs, beside one of this priority.
    /// - Returns: its number here.
    func add(
        _ running: RunningJobs,
        waitingJobs: @escaping @Sendable (Job.Priority) async -> JobQueue.WaitingJobs = { _ in .none }
    ) -> Int {
        let member = state.withLock { state in
            state.members.append(running)
            state.readiness.append(waitingJobs)
            state.reserved.append(0)
            state.begun.append(.now)
            state.isSlow.append(false)
            return state.members.count - 1
        }
        running.join(
            RunningJobs.Siblings(
                didFree: { [weak self] in self?.wakeNext(after: member) },
                lend: { [weak self] in self?.lend(to: member) },
                activeCount: { [weak self] in self?.activeCount ?? 0 },
                countsSettlements: { [weak self] in
                    guard let self else { return true }
                    return waitsForSettlements || isShared
                },
                waitingJobs: { [weak self] in await self?.othersWaiting(than: member, beside: $0) ?? .none }
            )
        )
        return member
    }

    /// Places that are free for a shard: those for which another one is claiming are not.
    func free(for member: Int) -> Int { state.withLock { free(for: member, $0) } }

    private func free(for member: Int, _ state: State) -> Int {
        let held = state.members.reduce(0) { $0 + $1.count - $1.placelessCount }
        let others = state.reserved.enumerated().reduce(0) { $0 + ($1.offset == member ? 0 : $1.element) }
        if waitsForSettlements { return count - held - others }
        let limit = disk.limit()
        // Jobs that have left their places write to the full disk, too.
        let active = state.members.reduce(0) { $0 + (limit == nil ? $1.activeCount : $1.unsettledCount) }
        let allowed = min(count, limit ?? count)
        return min(allowed - active, count + JobQueue.maximumBatchSize - held) - others
    }

    /// Claimed jobs of all shards that occupy a place.
    var activeCount: Int { state.withLock { $0.members.reduce(0) { $0 + $1.activeCount } } }

    /// Lets jobs leave their places whose fetches take long, and all that fetch from slow hosts, as many of these begin
    /// at once; only if no place is free otherwise. Wakes the claim loops of all shards for the places. A worker
    /// whose disk is full keeps its jobs few.
    func leaveLongFetches(at now: ContinuousClock.Instant = .now) {
        guard !waitsForSettlements, disk.limit() == nil else { return }
        let members = state.withLock { $0.members }
        guard members.reduce(0, { $0 + $1.activeCount }) >= count else { return }
        let usual = members.compactMap(\.usualFetch).max()
        let bounds = Self.longFetchBounds
        let long = usual.map { min(max($0 * Self.longFetchFactor, bounds.lowerBound), bounds.upperBound) }
        let time = now - (long ?? bounds.upperBound)
        let further = max((long ?? bounds.upperBound) / Self.furtherFetchDivisor, (usual ?? .zero) * 3 / 2)
        let furtherTime = now - min(further, bounds.upperBound)
        let room = count * FleetPlaces.longFetchesOfPlace - members.reduce(0) { $0 + $1.placelessCount }
        func hosts(since time: ContinuousClock.Instant) -> Set<String> {
            members.reduce(into: Set()) { $0.formUnion($1.hosts(ofFetchesSince: time)) }
        }
        let (slow, slowest) = (hosts(since: time), hosts(since: now - bounds.upperBound))
        var left = 0
        func leave(upTo room: Int, _ isLong: (ContinuousClock.Instant, String?) -> Bool) {
            for member in members where left < room { left += member.leavePlaces(atMost: room - left, isLong) }
        }
        leave(upTo: room) { start, host in start <= time || host.map(slowest.contains) ?? false }
        // Later than the others: they may end soon, and leave room for fetches of which it is known that they do not.
        leave(upTo: room - count) { start, host in start <= furtherTime && host.map(slow.contains) ?? false }
        if left > 0 { wakeAll() }
    }

    /// Lends a place of all shards to a pack of one of them.
    ///
    /// - Returns: whether a place was free, and the disk is not full; nil if the shard shares its places with no other.
    func lend(to member: Int) -> Bool? {
        if disk.limit() != nil { return false }
        return state.withLock { state in
            guard state.members.count > 1 else { return nil }
            guard state.members.reduce(0, { $0 + $1.usedCount }) < count else { return false }
            state.members[member].lend()
            return true
        }
    }

    /// Time in which the other shards answer a pack, which does not go on meanwhile.
    private static let answerLimit: Duration = .milliseconds(250)

    /// The jobs of shards that wait for a place. Shards that do not answer soon have none.
    ///
    /// - Parameter member: the shard that asks, and knows about its own jobs.
    private func othersWaiting(than member: Int, beside priority: Job.Priority) async -> JobQueue.WaitingJobs {
        let waiting = state.withLock { state in
            state.waiting.filter { $0 != member }.map { state.readiness[$0] }
        }
        if waiting.isEmpty { return .none }
        return await TimeLimit.run(Self.answerLimit) {
            await withTaskGroup(of: JobQueue.WaitingJobs.self) { shards in
                for waitingJobs in waiting { shards.addTask { await waitingJobs(priority) } }
                return await shards.reduce(.none) { max($0, $1) }
            }
        } ?? .none
    }

    /// Whether a job in any shard is suspected of process deaths.
    var hasSuspect: Bool { state.withLock { $0.members.contains { $0.hasSuspect } } }

    /// Whether the shard waits for its turn.
    func isWaiting(_ member: Int) -> Bool { state.withLock { $0.waiting.contains(member) } }

    /// Whether a shard without work has a free place, so that its next job is for this worker. Otherwise it waits for
    /// its turn: another shard may claim for all places at this moment, and find nothing.
    func hasPlace(_ member: Int) -> Bool {
        state.withLock { state in
            if state.waiting.contains(member) { return false }
            if free(for: member, state) > 0 { return true }
            state.waiting.append(member)
            return false
        }
    }

    /// Reserves places for a claim, until `end`.
    ///
    /// - Returns: the number of places: all that are free, or the shard's part of all if its last claim took long. 0 if
    ///   none is free, or another shard has waited longer; the jobs of the shard are then notified when its turn comes
    ///   (`RunningJobs.changed`).
    func reserve(for member: Int, at now: ContinuousClock.Instant = .now) -> Int {
        let (number, next) = state.withLock { state -> (Int, RunningJobs?) in
            let free = free(for: member, state)
            if let first = state.waiting.first, first != member || free <= 0 {
                if !state.waiting.contains(member) { state.waiting.append(member) }
                return (0, free > 0 ? state.members[first] : nil)
            }
            if free <= 0 {
                state.waiting.append(member)
                return (0, nil)
            }
            if state.waiting.first == member { state.waiting.removeFirst() }
            let isBounded = state.isSlow[member] && state.members.count > 1
            let number = isBounded ? min(free, max(1, count / state.members.count)) : free
            state.reserved[member] = number
            state.begun[member] = now
            return (number, number < free ? state.waiting.first.map { state.members[$0] } : nil)
        }
        next?.changed.signal()
        return number
    }

    /// Ends a claim: the places that it did not fill are free again.
    func end(for member: Int, at now: ContinuousClock.Instant = .now) {
        state.withLock { state in
            state.reserved[member] = 0
            state.isSlow[member] = state.begun[member].duration(to: now) > Self.shortClaim
        }
        wakeNext(after: member)
    }

    /// Gives up the turn of a shard, which does not claim now.
    func leave(_ member: Int) {
        state.withLock { state in
            state.waiting.removeAll { $0 == member }
            state.reserved[member] = 0
        }
        wakeNext(after: member)
    }

    /// Wakes the claim loops of all shards, as places are free that no job has left. One of them may sleep although it
    /// does not wait for its turn: if a claim with a settlement was under way when it looked for places.
    func wakeAll() {
        for member in state.withLock({ $0.members }) { member.changed.signal() }
    }

    /// Does so when a pause is over.
    func wakeAll(after pause: Duration) {
        // Unstructured, as no caller waits for it. It ends with the pause, and does nothing if the worker has ended.
        Task { [weak self] in
            // Not cancelled: there is no reference to it.
            try? await Task.sleep(for: pause)
            self?.wakeAll()
        }
    }

    /// Notifies the shard that has waited longest, if there is a place for it.
    ///
    /// - Parameter member: the shard that has made a place free, and that knows by itself.
    func wakeNext(after member: Int) {
        let next = state.withLock { state -> RunningJobs? in
            guard let first = state.waiting.first, first != member, free(for: first, state) > 0 else { return nil }
            return state.members[first]
        }
        next?.changed.signal()
    }
}
