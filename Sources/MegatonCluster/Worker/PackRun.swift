internal import Foundation
internal import MegatonPipeline
internal import MegatonRedis

/// A claimed pack while its sources run: what was decided about them and not settled yet.
struct PackRun: Sendable {
    let active: ActiveJob
    /// The sources that Redis has in the pack.
    private(set) var pack: Pack
    /// Sources that have not been started.
    private(set) var waiting: ArraySlice<Pack.Source>
    /// The turn for which the rest of the pack waits, once its host has refused a request.
    var turn: HostTurn?
    private var ends: [PackSettlement.End] = []
    private var splits: [PackSettlement.Split] = []
    private var counters: [String: Int] = [:]
    private var bytes = 0
    private var last = ContinuousClock.now

    /// Time after which sources that have ended are settled while others still run, so that progress is seen, and is
    /// not lost if the worker dies.
    static let settleInterval: Duration = .seconds(5)
    /// Bytes of outcomes and jobs in one call.
    private static let callBytes = 512 * 1024

    init(_ pack: Pack, of active: ActiveJob) {
        self.active = active
        self.pack = pack
        waiting = pack.sources[...]
    }

    mutating func startNext() -> Pack.Source? {
        turn == nil && active.reason == nil ? waiting.popFirst() : nil
    }

    /// Whether decisions are to be settled before the pack has ended.
    func wantsSettlement(at now: ContinuousClock.Instant) -> Bool {
        bytes >= Self.callBytes || hasDecisions && now - last >= Self.settleInterval
    }

    private var hasDecisions: Bool { !ends.isEmpty || !splits.isEmpty }

    mutating func end(_ outcome: JobOutcome, dead: DeadLetter.Content? = nil) {
        let id = outcome.id ?? ""
        bytes += 512 + (dead.map { 2 * $0.job.utf8.count } ?? 0)
        ends.append(.init(id: id, outcome: outcome, dead: dead))
    }

    mutating func split(_ split: PackSettlement.Split) {
        bytes += 512 + split.job.source.utf8.count
        splits.append(split)
        waiting.removeAll { $0.id == split.job.id }
    }

    mutating func add(_ numbers: [String: Int]) { counters.merge(numbers, uniquingKeysWith: +) }

    /// The sources about which nothing was decided.
    var undecided: [Pack.Source] {
        let decided = Set(ends.map(\.id)).union(splits.compactMap(\.job.id))
        return pack.sources.filter { !decided.contains($0.id) }
    }

    /// The settlement of what was decided; the other sources stay claimed.
    func partialSettlement() -> PackSettlement {
        var settlement = PackSettlement(ends: ends, splits: splits, counters: counters)
        let rest = undecided
        settlement.rest = rest.isEmpty ? .none : .keep(pack.with(rest))
        return settlement
    }

    /// The settlement with which the worker gives the pack up.
    func lastSettlement() -> PackSettlement {
        var settlement = partialSettlement()
        guard case .keep(let rest) = settlement.rest else { return settlement }
        settlement.rest = turn.map { active.reason == nil ? .hold(rest, $0) : .ready(rest) } ?? .ready(rest)
        return settlement
    }

    /// Forgets what was settled.
    mutating func settled(at now: ContinuousClock.Instant) {
        pack.sources = undecided
        (ends, splits, counters, bytes, last) = ([], [], [:], 0, now)
    }
}
