/// Exponential back-off with full jitter: each delay is random below a bound that doubles up to a cap, so that clients
/// that lost the same server do not all reconnect at once.
///
/// It delays reconnections to Redis and repeated commands. The delays between attempts of a job are `RetryPolicy` of
/// MegatonCluster.
package struct Backoff: Sendable {
    private let first: Duration
    private let cap: Duration
    /// Cap for a server that is reachable but busy: a longer delay loses time after the server is free again, and each
    /// attempt costs the server only a reply.
    private static let busyCap: Duration = .milliseconds(500)
    private var failures = 0

    /// - Parameters:
    ///   - first: the first bound.
    ///   - cap: the largest bound.
    package init(first: Duration = .milliseconds(50), cap: Duration = .seconds(2)) {
        self.first = first
        self.cap = cap
    }

    /// Returns the delay before the next attempt, which is shorter if the server is busy (BUSY, LOADING). The error has
    /// no default value, so that no caller forgets it; pass nil if there is none.
    package mutating func next(after error: (any Error)?) -> Duration {
        let isBusy = (error as? RedisError)?.code == .busy
        let bound = min(isBusy ? min(cap, Self.busyCap) : cap, first * (1 << min(failures, 16)))
        failures += 1
        return bound * Double.random(in: 0...1)
    }

    /// Starts again at the first bound. Call it after a success.
    package mutating func reset() { failures = 0 }
}
