package import Foundation
import Synchronization

/// Token bucket for each host: limits how many requests begin each second, first come, first served.
///
/// A pipeline uses none by default; Nuke's limiter allows 80 a second with bursts of 25, for all hosts together.
public final class RateLimiter: Sendable {
    /// Token bucket of one host, with its waiters.
    fileprivate struct Bucket {
        /// Time at which all used tokens are refilled. This is the whole state of a bucket (GCRA), in whole numbers.
        var full: Duration
        /// The first waiter sleeps until a token is available; the others wait until they are the first.
        var waiting: [Waiter] = []
    }

    fileprivate struct Waiter: Sendable {
        let id: Int
        /// True if the waiter has become the first, false if it was cancelled.
        let turn = Promise<Bool>()
    }

    fileprivate struct State {
        var buckets: [String: Bucket] = [:]
        /// Bucket count at which full buckets are pruned.
        var pruneAt = RateLimiter.fewBuckets
        var waiting = 0
        var nextID = 0
    }

    private enum Entrance {
        case passed
        case refused(retryAfter: Duration)
        case waits(Waiter, isFirst: Bool)
    }

    private let interval: Duration
    private let burst: Int
    private let maximumWaiting: Int
    private let time: TimeSource
    private let state = Mutex(State())
    fileprivate static let fewBuckets = 1024

    /// - Parameters:
    ///   - rate: requests a second.
    ///   - burst: requests that may begin at once, after a pause.
    ///   - maximumWaiting: requests that may wait at a time, over all hosts; more are refused.
    ///   - clock: measures the seconds.
    public init(
        rate: Double = 80,
        burst: Int = 25,
        maximumWaiting: Int = 10_000,
        clock: any Clock<Duration> = ContinuousClock()
    ) {
        precondition(rate > 0 && burst >= 1 && maximumWaiting >= 0, "the rate must be above 0, the burst at least 1")
        // Whole nanoseconds between two tokens, at most an hour.
        interval = .nanoseconds(Int64(min(3600e9, max(1, 1e9 / rate)).rounded()))
        self.burst = burst
        self.maximumWaiting = maximumWaiting
        time = TimeSource(clock)
    }

    /// Waits until a request to the host may begin. A caller that is cancelled while it waits leaves the line without
    /// using a token.
    ///
    /// - Parameter host: identifies the host, `example.org:443` for example.
    /// - Throws: `.throttled` with `retryAfter` if too many requests wait already; `.cancelled`.
    package func acquire(_ host: String) async throws(ImageError) {
        let cancelled = ImageError(
            .cancelled,
            "The request to \(host) was cancelled while it waited for the rate limit."
        )
        if Task.isCancelled { throw cancelled }
        switch enter(host) {
        case .passed: return
        case .refused(let retryAfter):
            throw ImageError(
                .throttled,
                "\(host) is at its rate limit, and \(maximumWaiting) requests wait already; try later.",
                retryAfter: retryAfter.inSeconds
            )
        case .waits(let waiter, let isFirst):
            let start = ContinuousClock.now
            defer { QueueWaitRecorder.current?.waited(since: start) }
            if await !wait(waiter, isFirst: isFirst, host) { throw cancelled }
        }
    }

    /// Waits until a request for the URL may begin; its bucket is that of host and port.
    ///
    /// - Throws: as `acquire(_:)` with a host does.
    package func acquire(for url: URL) async throws(ImageError) {
        let port = url.port ?? (url.scheme?.lowercased() == "http" ? 80 : 443)
        try await acquire("\(HostName.canonical(of: url)):\(port)")
    }

    /// Requests that wait at the moment.
    package var waitingCount: Int { state.withLock { $0.waiting } }

    /// Hosts with a bucket.
    var hostCount: Int { state.withLock { $0.buckets.count } }

    // MARK: -

    private func enter(_ host: String) -> Entrance {
        let now = time.now()
        return state.withLock { state in
            state.prune(at: now)
            var bucket = state.buckets[host] ?? Bucket(full: now)
            if bucket.waiting.isEmpty, bucket.take(interval, burst: burst, at: now) == nil {
                state.buckets[host] = bucket
                return .passed
            }
            guard state.waiting < maximumWaiting else {
                let ahead = bucket.waiting.count + 1 - burst
                return .refused(retryAfter: max(.zero, bucket.full - now + interval * ahead))
            }
            state.waiting += 1
            state.nextID += 1
            let waiter = Waiter(id: state.nextID)
            bucket.waiting.append(waiter)
            state.buckets[host] = bucket
            return .waits(waiter, isFirst: bucket.waiting.count == 1)
        }
    }

    /// - Returns: false if the task was cancelled.
    private func wait(_ waiter: Waiter, isFirst: Bool, _ host: String) async -> Bool {
        if !isFirst {
            let isTurn = await withTaskCancellationHandler {
                await waiter.turn.value
            } onCancel: {
                self.cancel(waiter, host)
            }
            if !isTurn { return false }
        }
        var hasToken = false
        await repeating(clock: time.clock) {
            let left = take(waiter, host)
            hasToken = left == nil
            return left
        }
        if !hasToken { leave(waiter, host) }
        return hasToken
    }

    /// Acquires a token for the first waiter.
    ///
    /// - Returns: time until a token is available; nil if it was acquired.
    private func take(_ waiter: Waiter, _ host: String) -> Duration? {
        let now = time.now()
        let (left, next) = state.withLock { state -> (Duration?, Waiter?) in
            let left = state.buckets[host]?.take(interval, burst: burst, at: now)
            return (left, left == nil ? state.remove(waiter.id, host) : nil)
        }
        next?.turn.resolve(true)
        return left
    }

    private func leave(_ waiter: Waiter, _ host: String) {
        let next = state.withLock { $0.remove(waiter.id, host) }
        next?.turn.resolve(true)
    }

    /// Removes a cancelled waiter and notifies it, unless it is the first: that one notices the cancellation itself.
    private func cancel(_ waiter: Waiter, _ host: String) {
        let isWaiting = state.withLock { state in
            guard let first = state.buckets[host]?.waiting.first, first.id != waiter.id else { return false }
            let count = state.waiting
            _ = state.remove(waiter.id, host)
            return state.waiting < count
        }
        if isWaiting { waiter.turn.resolve(false) }
    }
}

extension RateLimiter.Bucket {
    /// Acquires a token.
    ///
    /// - Returns: time until a token is available; nil if it was acquired.
    fileprivate mutating func take(_ interval: Duration, burst: Int, at now: Duration) -> Duration? {
        let from = max(full, now)
        let left = from - interval * (burst - 1) - now
        if left > .zero { return left }
        full = from + interval
        return nil
    }
}

extension RateLimiter.State {
    /// Removes a waiter from the line of its host.
    ///
    /// - Returns: the waiter that has become the first, if any.
    fileprivate mutating func remove(_ id: Int, _ host: String) -> RateLimiter.Waiter? {
        guard let place = buckets[host]?.waiting.firstIndex(where: { $0.id == id }) else { return nil }
        buckets[host]?.waiting.remove(at: place)
        waiting -= 1
        return place == 0 ? buckets[host]?.waiting.first : nil
    }

    /// Removes full buckets, which equal those of unknown hosts. The next scan follows when the count has doubled, so
    /// that new buckets pay for it.
    fileprivate mutating func prune(at now: Duration) {
        guard buckets.count >= pruneAt else { return }
        buckets = buckets.filter { !$0.value.waiting.isEmpty || $0.value.full > now }
        pruneAt = max(RateLimiter.fewBuckets, buckets.count * 2)
    }
}
