internal import Foundation
internal import MegatonRedis
internal import NIOCore
internal import Synchronization

/// A job that this worker has claimed and not settled.
package final class ActiveJob: Sendable {
    let key: JobKey
    /// The id that its submitter gave, as in outcomes and logs. Scripts receive the key's text.
    package var id: String { key.id }
    /// 1 for the first attempt, and one higher each time. Every write about the job carries it: it is the fencing
    /// token.
    let attempt: Int
    /// Attempts that do not count: the job was released, or only waited for others.
    let free: Int
    /// The number of this attempt among those that count.
    var counted: Int { attempt - free }
    /// How often a worker died or fell silent with this job.
    let stalls: Int
    /// Process deaths that its source is suspected of, over all jobs that name it.
    let deaths: Int
    /// Number of sources of a pack; 0 for a job with one source.
    let packSize: Int
    /// How long it was ready before this claim; nil if that is not known.
    let waited: Duration?
    /// Bytes of its JSON, if that is too large to be handed out; otherwise 0.
    let excessSize: Int
    /// Whether its source must run in a process of its own.
    var isSuspect: Bool { deaths == 2 }
    /// Whether its source has killed so many processes that no job runs it any more.
    var isQuarantined: Bool { deaths >= Self.deathLimit }
    /// Deaths after which a source is quarantined. The scripts contain the same number.
    static let deathLimit = 3
    /// The JSON that was admitted.
    let json: Data
    /// Name of its batch; empty if it has none. A requeued job has none, as the batch that it died in has counted it
    /// already.
    let batch: String
    /// Whether its batch had been cancelled before the job was claimed.
    let isCancelled: Bool

    private let state: Mutex<State>

    private struct State {
        var validUntil: ContinuousClock.Instant
        var reason: StopReason?
        var isSettling = false
        var hasLeftPlace = false
        var fetch: (host: String?, start: @Sendable () -> ContinuousClock.Instant?)?
        var onStop: (@Sendable () -> Void)?
    }

    /// Why a job is stopped before its end.
    enum StopReason: Sendable {
        /// Another worker has the lease, or may have it: nothing may be written about the job any more.
        case leaseLost
        case batchCancelled
        /// Three processes have died of its source meanwhile.
        case quarantined
        /// The worker shuts down: the job is released.
        case shutdown
    }

    /// A job in the reply to the script `claim`; nil if the reply has another form.
    ///
    /// - Parameter validUntil: time until which the worker holds the lease.
    init?(_ reply: RedisValue, validUntil: ContinuousClock.Instant) {
        guard let fields = reply.array, fields.count == 11, let key = fields[0].string, let attempt = fields[1].int,
            let stalls = fields[2].int, let json = fields[3].buffer
        else { return nil }
        self.key = JobKey(key)
        self.attempt = attempt
        self.stalls = stalls
        self.json = Data(json.readableBytesView)
        batch = fields[4].string ?? ""
        isCancelled = fields[5].string == "1"
        free = fields[6].int ?? 0
        deaths = fields[7].int ?? 0
        excessSize = fields[8].int ?? 0
        packSize = fields[9].int ?? 0
        waited = (fields[10].int).flatMap { $0 < 0 ? nil : .milliseconds($0) }
        state = Mutex(State(validUntil: validUntil))
    }

    /// Whether the job is being settled. If its lease is gone then, the settlement has ended it, or the reply to the
    /// settlement explains why.
    var isSettling: Bool { state.withLock { $0.isSettling } }

    func markSettling() { state.withLock { $0.isSettling = true } }

    /// Whether its place is another job's, as its fetch takes long (`WorkerPlaces`).
    var hasLeftPlace: Bool { state.withLock { $0.hasLeftPlace } }

    func leavePlace() { state.withLock { $0.hasLeftPlace = true } }

    /// The host of the job, and when the request that is under way began; nil if none is, or the job has several
    /// sources.
    var fetch: (host: String?, start: ContinuousClock.Instant)? {
        guard let (host, start) = state.withLock({ $0.fetch }), let began = start() else { return nil }
        return (host, began)
    }

    /// Sets the source of ``fetch``.
    func observeFetch(from host: String?, _ start: @escaping @Sendable () -> ContinuousClock.Instant?) {
        state.withLock { $0.fetch = (host, start) }
    }

    func endFetch() { state.withLock { $0.fetch = nil } }

    var reason: StopReason? { state.withLock { $0.reason } }
    var validUntil: ContinuousClock.Instant { state.withLock { $0.validUntil } }

    func prolong(to instant: ContinuousClock.Instant) {
        state.withLock { $0.validUntil = max($0.validUntil, instant) }
    }

    /// Calls the body when the job is stopped, at once if it is already. A later body replaces it, and nil removes it.
    ///
    /// - Parameter body: must not block, as the heartbeat may call it, nor cancel a task, whose cancellation handlers
    ///   would run in that call.
    func onStop(_ body: (@Sendable () -> Void)?) {
        let isStopped = state.withLock { state in
            state.onStop = body
            return state.reason != nil
        }
        if isStopped { body?() }
    }

    /// Stops the job. The first reason stays.
    func stop(_ reason: StopReason) {
        let onStop = state.withLock { state in
            if state.reason == nil { state.reason = reason }
            return state.onStop
        }
        onStop?()
    }
}
