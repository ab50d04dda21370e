package import MegatonCore
import Synchronization

/// Limits the requests of each client: a token bucket in the form of the generic cell rate algorithm, which keeps one
/// time for each client.
///
/// The table is bounded. It has two halves: a client that sends a request moves to the newer one, and when that is full
/// the older one is forgotten, with the clients that have not sent a request for longest.
package final class ClientRate: Sendable {
    private struct State {
        /// Times at which the buckets are full again.
        var newer: [AttemptLimit.Client: Duration] = [:]
        var older: [AttemptLimit.Client: Duration] = [:]
    }

    /// Time in which a client gets a token.
    private let interval: Duration
    /// Time in which an empty bucket becomes full.
    private let period: Duration
    private let halfCapacity: Int
    private let time: TimeSource
    private let state = Mutex(State())

    /// Seconds of requests that a client may send at once: a page has many images.
    private static let burstSeconds = 10.0
    private static let smallestBurst = 10.0

    /// - Parameters:
    ///   - rate: requests a second of one client, more than 0. It may send those of ten seconds at once, and at least
    ///     ten.
    ///   - capacity: maximum number of clients that are known.
    package init(rate: Double, capacity: Int = 100_000, time: TimeSource = TimeSource(ContinuousClock())) {
        let burst = max(Self.smallestBurst, rate * Self.burstSeconds)
        interval = .seconds(1 / rate)
        period = .seconds(burst / rate)
        halfCapacity = max(1, capacity / 2)
        self.time = time
    }

    /// Takes a token of the client.
    ///
    /// - Returns: the time until there is one; nil if it was taken.
    func take(_ client: AttemptLimit.Client) -> Duration? {
        state.withLock { state in
            let now = time.now()
            let full = max(now, state.newer[client] ?? state.older[client] ?? now)
            if state.newer[client] == nil, state.newer.count >= halfCapacity {
                (state.older, state.newer) = (state.newer, [:])
            }
            // A nanosecond of rounding is no reason to refuse the last token.
            let wait = full + interval - now - period - .nanoseconds(1)
            state.newer[client] = wait > .zero ? full : full + interval
            return wait > .zero ? wait : nil
        }
    }

    /// Number of clients that are known.
    var count: Int { state.withLock { $0.newer.count + $0.older.count } }
}
