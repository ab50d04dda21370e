internal import Foundation
internal import MegatonPipeline
internal import Synchronization

/// The host limits of a queue: those of a host are kept by one shard, whichever shards its jobs are in.
final class HostLimiters: FetchLimiting {
    /// One for each shard, in order.
    private let limiters: Mutex<[HostRateLimiter]>

    /// - Parameter first: that of shard 0.
    init(_ first: HostRateLimiter) { limiters = Mutex([first]) }

    /// Replaces those of the other shards. Called before the first request.
    func use(_ others: [HostRateLimiter]) {
        limiters.withLock { $0 = [$0[0]] + others }
    }

    func acquire(for url: URL) async throws(ImagePipeline.Error) -> FetchPermit {
        try await limiter(of: HostRateLimiter.name(of: url)).acquire(for: url)
    }

    func release(_ permit: FetchPermit, outcome: OriginOutcome) async {
        await limiter(of: permit.host).release(permit, outcome: outcome)
    }

    private func limiter(of host: String) -> HostRateLimiter {
        limiters.withLock { $0.count == 1 ? $0[0] : $0[Self.shard(of: host, count: $0.count)] }
    }

    /// The shard that keeps the limits of a host, `host:port`.
    static func shard(of host: String, count: Int) -> Int { ShardLayout(count: count).shard(of: host) }
}
