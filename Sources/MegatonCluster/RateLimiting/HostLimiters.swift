internal import Foundation
internal import MegatonPipeline
internal import Synchronization

/// The host limits of a queue: those of a host are kept by one shard, whichever shards its jobs are in.
///
/// While a shard does not answer, its hosts are not limited, and one request at a time finds out whether it is back:
/// the others, which are for jobs of any shard, do not wait for it.
final class HostLimiters: FetchLimiting {
    private struct State {
        /// One for each shard, in order.
        var limiters: [HostRateLimiter]
        /// When shards that did not answer are asked again.
        var retries: [Int: ContinuousClock.Instant] = [:]
        /// Hosts for which jobs wait in other shards than the one that keeps their limits, and does not know it yet.
        var awaited: Set<String> = []
    }

    private let state: Mutex<State>

    /// Number of hosts that are noted at a time. Jobs of a host that is not get no share of its turns for a while.
    private static let maximumNotes = 10_000

    /// Interval at which a shard that does not answer is asked: as long as a command waits for it.
    private static let retryInterval: Duration = .seconds(5)

    /// - Parameter first: that of shard 0.
    init(_ first: HostRateLimiter) { state = Mutex(State(limiters: [first])) }

    /// Replaces those of the other shards. Called before the first request.
    func use(_ others: [HostRateLimiter]) {
        state.withLock { $0.limiters = [$0.limiters[0]] + others }
    }

    func acquire(for url: URL) async throws(ImagePipeline.Error) -> FetchPermit {
        let (shard, limiter, isShared) = limiter(of: OriginHost.name(of: url))
        guard isShared else { return try await limiter.acquire(for: url) }
        if isAway(shard, at: .now) { return await limiter.unlimitedPermit(for: url) }
        do throws(ImagePipeline.Error) {
            let permit = try await limiter.acquire(for: url) { takeNote(of: OriginHost.name(of: url)) }
            // Neither a lost connection nor a damaged key of one host means that the shard is away: the limits of the
            // other hosts hold.
            if permit.token != nil || limiter.hasNoAnswer { note(shard, hasAnswered: permit.token != nil) }
            return permit
        } catch {
            // The host is at its limit, or its circuit is open: the shard has answered.
            note(shard, hasAnswered: true)
            throw error
        }
    }

    /// Notes that a job waits for its host, so that the jobs in the shard of the host leave it a turn; see
    /// `releasePermit`. The next request for a permit of the host reports it.
    func noteHeld(by host: String, in shard: Int) {
        state.withLock { state in
            let count = state.limiters.count
            guard count > 1, Self.shard(of: host, count: count) != shard, state.awaited.count < Self.maximumNotes
            else { return }
            state.awaited.insert(host)
        }
    }

    private func takeNote(of host: String) -> Bool { state.withLock { $0.awaited.remove(host) != nil } }

    func noteFirstBytes(_ permit: FetchPermit) { limiter(of: permit.host).limiter.noteFirstBytes(permit) }

    func release(_ permit: FetchPermit, outcome: OriginOutcome, cause: ImagePipeline.Error?) async -> HostTurn? {
        await limiter(of: permit.host).limiter.release(permit, outcome: outcome, cause: cause)
    }

    /// Whether a shard did not answer a moment ago. If that is a while ago, this request is the one that asks again.
    private func isAway(_ shard: Int, at now: ContinuousClock.Instant) -> Bool {
        state.withLock { state in
            guard let retry = state.retries[shard] else { return false }
            if now < retry { return true }
            state.retries[shard] = now + Self.retryInterval
            return false
        }
    }

    private func note(_ shard: Int, hasAnswered: Bool) {
        state.withLock { $0.retries[shard] = hasAnswered ? nil : .now + Self.retryInterval }
    }

    private func limiter(of host: String) -> (shard: Int, limiter: HostRateLimiter, isShared: Bool) {
        state.withLock { state in
            let count = state.limiters.count
            let shard = count == 1 ? 0 : Self.shard(of: host, count: count)
            return (shard, state.limiters[shard], count > 1)
        }
    }

    /// The shard that keeps the limits of a host, `host:port`.
    static func shard(of host: String, count: Int) -> Int { ShardLayout(count: count).shard(of: host) }
}
