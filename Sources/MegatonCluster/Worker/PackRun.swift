internal import Foundation
internal import MegatonPipeline
internal import MegatonRedis

/// A claimed pack while its sources run: what was decided about them and not settled yet.
struct PackRun: Sendable {
    let active: ActiveJob
    /// The sources that Redis has in the pack.
    private(set) var pack: Pack
    /// The host of its sources; nil if they have none.
    let host: String?
    /// Sources that have not been started.
    private(set) var waiting: ArraySlice<Pack.Source>
    /// The turn for which the rest of the pack waits, once its host has refused a request, and when that was.
    private var refusal: (turn: HostTurn, time: ContinuousClock.Instant)?
    /// Whether it begins with no further source, as other jobs wait for its place.
    var isYielding = false
    /// Whether its host was given up and has not answered since. Its sources end within milliseconds, without a
    /// request: they run one after the other, as more at a time would only take the processors from other jobs.
    var isGivenUp = false
    private var ends: [PackSettlement.End] = []
    private var splits: [PackSettlement.Split] = []
    /// Numbers that are added to the counters of the batch with the next settlement.
    var counters = AttemptCounters()
    /// Bytes of `ends` and `splits`.
    private var bytes = 0
    private var last = ContinuousClock.now
    private let interval: Duration
    /// When it began, and when it last checked for other jobs and for idle workers.
    private let start = ContinuousClock.now
    private var lastCheck = ContinuousClock.now
    /// Number of sources that it splits off next for other workers.
    private var shareSize = Self.firstShare
    /// Whether it has split off sources for other workers that Redis does not have yet.
    private var hasShared = false

    /// Time after which sources that have ended are settled while others still run, so that progress is seen, and is
    /// not lost if the worker dies.
    static let settleInterval: Duration = .seconds(2)
    /// Numbers of sources that become jobs of their own at once: the first one, doubled each time up to the last one,
    /// as they fill the window of the jobs that are admitted if no worker has a place for them.
    private static let (firstShare, largestShare) = (8, 64)
    /// Maximum number of bytes of outcomes, dead letters and jobs in one call: Redis serves no other client meanwhile.
    static let callBytes = 512 * 1024

    init(_ pack: Pack, of active: ActiveJob, settledEach interval: Duration = settleInterval) {
        self.interval = interval
        self.active = active
        self.pack = pack
        host = pack.sources.first.flatMap { pack.job($0).host }
        waiting = pack.sources[...]
    }

    /// Whether a further source may be started.
    var mayStart: Bool { refusal == nil && !isYielding && active.reason == nil && !waiting.isEmpty }

    mutating func startNext() -> Pack.Source? { mayStart ? waiting.popFirst() : nil }

    /// Whether decisions are to be settled before the pack has ended.
    func wantsSettlement(at now: ContinuousClock.Instant) -> Bool {
        bytes >= Self.callBytes || hasShared || hasDecisions && now - last >= interval
    }

    /// Whether something was decided that is not settled.
    var hasDecisions: Bool { !ends.isEmpty || !splits.isEmpty }

    /// Whether it is time to check for other jobs and for idle workers: after a second, and each further one.
    mutating func checksOthers(at now: ContinuousClock.Instant) -> Bool {
        guard mayStart, waiting.count > 1, now - lastCheck >= interval / 2 else { return false }
        lastCheck = now
        return true
    }

    /// Whether jobs of its own priority may have its place: after five seconds. They may be packs too, and each change
    /// costs the JSON of a pack twice.
    func hasHadTurn(at now: ContinuousClock.Instant) -> Bool { now - start >= interval * 5 / 2 }

    /// Makes jobs of their own of sources that have not been started, for workers that have places for them.
    mutating func share() {
        hasShared = true
        for source in waiting.dropFirst().prefix(shareSize) {
            split(.init(job: pack.job(source), free: active.free + 1))
        }
        shareSize = min(shareSize * 2, Self.largestShare)
    }

    mutating func end(_ outcome: JobOutcome, dead: DeadLetter.Content? = nil) {
        let end = PackSettlement.End(
            id: outcome.id ?? "",
            outcome: outcome,
            dead: dead,
            isKept: !active.batch.isEmpty || pack.shared.reply != nil
        )
        bytes += end.size
        ends.append(end)
    }

    mutating func split(_ split: PackSettlement.Split) {
        bytes += split.size
        splits.append(split)
        waiting.removeAll { $0.id == split.job.id }
    }

    /// Notes that the host refused a request: no further source is started.
    mutating func refuse(_ turn: HostTurn, at time: ContinuousClock.Instant) { refusal = (turn, time) }

    /// The sources about which nothing was decided.
    var undecided: [Pack.Source] { sources(without: ends, splits) }

    private func sources(without ends: [PackSettlement.End], _ splits: [PackSettlement.Split]) -> [Pack.Source] {
        let decided = Set(ends.map(\.id)).union(splits.compactMap(\.job.id))
        return pack.sources.filter { !decided.contains($0.id) }
    }

    /// The next part of what was decided: at most `callBytes`, or one source. The others stay claimed.
    ///
    /// - Parameter isLast: whether the worker gives the pack up: with the last part, the others are released, or wait
    ///   for their host: for what is left of the wait, as sources that ran until now may have brought its first answer.
    func nextSettlement(isLast: Bool, at now: ContinuousClock.Instant) -> PackSettlement {
        var bytes = 0
        func fits(_ size: Int) -> Bool {
            defer { bytes += size }
            return bytes == 0 || bytes + size <= Self.callBytes
        }
        var settlement = PackSettlement(ends: Array(ends.prefix { fits($0.size) }), counters: counters.byName)
        settlement.reply = pack.shared.reply
        if settlement.ends.count == ends.count { settlement.splits = Array(splits.prefix { fits($0.size) }) }
        let rest = sources(without: settlement.ends, settlement.splits)
        if rest.isEmpty { return settlement }
        let isWhole = settlement.ends.count == ends.count && settlement.splits.count == splits.count
        if !isLast || !isWhole {
            settlement.rest = .keep(pack.with(rest))
        } else if let refusal, active.reason == nil {
            settlement.rest = .hold(pack.with(rest), refusal.turn.after(refusal.time.duration(to: now)))
        } else {
            settlement.rest = isYielding && active.reason == nil ? .yield(pack.with(rest)) : .ready(pack.with(rest))
        }
        return settlement
    }

    /// Forgets what was settled.
    mutating func settled(_ settlement: PackSettlement, at now: ContinuousClock.Instant) {
        pack.sources = sources(without: settlement.ends, settlement.splits)
        ends.removeFirst(settlement.ends.count)
        splits.removeFirst(settlement.splits.count)
        bytes = ends.reduce(0) { $0 + $1.size } + splits.reduce(0) { $0 + $1.size }
        (counters, last, hasShared) = (AttemptCounters(), now, false)
    }
}
