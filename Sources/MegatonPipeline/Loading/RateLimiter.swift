public import Foundation
import Synchronization

/// Lets so many requests a second begin, for each host by itself: a token bucket, first come first served.
///
/// A pipeline uses none by default; Nuke's has 80 a second with bursts of 25 for all hosts together.
public final class RateLimiter: Sendable {
    /// What one host has used, and who waits for more.
    fileprivate struct Bucket {
        /// When what has been used will have been filled up again. With it whole numbers are enough (GCRA).
        var full: Duration
        /// The first one waits for time, the others for their turn to be the first.
        var waiting: [Waiter] = []
    }

    fileprivate struct Waiter: Sendable {
        let id: Int
        /// True: it is the first now. False: it was cancelled.
        let turn = Answer<Bool>()
    }

    fileprivate struct State {
        var buckets: [String: Bucket] = [:]
        /// So many buckets are looked through for full ones.
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
    ///   - burst: requests at once, after a time without any.
    ///   - maximumWaiting: requests that wait at a time, over all hosts; those beyond it are refused.
    ///   - clock: what a second is measured by.
    public init(
        rate: Double = 80,
        burst: Int = 25,
        maximumWaiting: Int = 10_000,
        clock: any Clock<Duration> = ContinuousClock()
    ) {
        precondition(rate > 0 && burst >= 1 && maximumWaiting >= 0, "a rate limiter lets something through")
        // Whole nanoseconds, of which as many make up a second as there should; never more than an hour.
        interval = .nanoseconds(Int64(min(3600e9, max(1, 1e9 / rate)).rounded()))
        self.burst = burst
        self.maximumWaiting = maximumWaiting
        time = TimeSource(clock)
    }

    /// Returns when a request to the host may begin. Whoever is cancelled while it waits takes nothing and leaves its place
    /// to the next one.
    ///
    /// - Parameter host: whatever tells hosts apart, `example.org:443`, say.
    /// - Throws: `.throttled` where too many wait already, with `retryAfter`; `.cancelled`.
    public func acquire(_ host: String) async throws(ImagePipeline.Error) {
        let cancelled = ImagePipeline.Error(.cancelled, "Cancelled while waiting for the turn to ask \(host).")
        if Task.isCancelled { throw cancelled }
        switch enter(host) {
        case .passed: return
        case .refused(let retryAfter):
            throw ImagePipeline.Error(
                .throttled,
                "\(maximumWaiting) requests wait for their turn already; \(host) is asked as often as it may be.",
                retryAfter: retryAfter.inSeconds
            )
        case .waits(let waiter, let isFirst):
            let start = ContinuousClock.now
            defer { QueueAccount.current?.waited(since: start) }
            if await !wait(waiter, isFirst: isFirst, host) { throw cancelled }
        }
    }

    /// Returns when a request for the URL may begin: its host and port are what is counted.
    ///
    /// - Throws: as `acquire(_:)` with a host does.
    public func acquire(for url: URL) async throws(ImagePipeline.Error) {
        let port = url.port ?? (url.scheme?.lowercased() == "http" ? 80 : 443)
        try await acquire("\(url.host()?.lowercased() ?? ""):\(port)")
    }

    /// Requests that wait at the moment.
    public var waitingCount: Int { state.withLock { $0.waiting } }

    /// Hosts that something is remembered of.
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

    /// - Returns: false where the task was cancelled.
    private func wait(_ waiter: Waiter, isFirst: Bool, _ host: String) async -> Bool {
        if !isFirst {
            let isTurn = await withTaskCancellationHandler {
                await waiter.turn.value
            } onCancel: {
                self.cancel(waiter, host)
            }
            if !isTurn { return false }
        }
        while !Task.isCancelled {
            guard let left = take(waiter, host) else { return true }
            // Cancelled: the loop's condition ends it.
            try? await time.sleep(left)
        }
        leave(waiter, host)
        return false
    }

    /// Takes what the first one waits for.
    ///
    /// - Returns: how long until it is there; nil where it has been taken.
    private func take(_ waiter: Waiter, _ host: String) -> Duration? {
        let now = time.now()
        let (left, next) = state.withLock { state -> (Duration?, Waiter?) in
            let left = state.buckets[host]?.take(interval, burst: burst, at: now)
            return (left, left == nil ? state.remove(waiter.id, host) : nil)
        }
        next?.turn.give(true)
        return left
    }

    private func leave(_ waiter: Waiter, _ host: String) {
        let next = state.withLock { $0.remove(waiter.id, host) }
        next?.turn.give(true)
    }

    /// Tells one who is not the first that it is no longer in the line. The first one finds out by itself.
    private func cancel(_ waiter: Waiter, _ host: String) {
        let isWaiting = state.withLock { state in
            guard let first = state.buckets[host]?.waiting.first, first.id != waiter.id else { return false }
            let count = state.waiting
            _ = state.remove(waiter.id, host)
            return state.waiting < count
        }
        if isWaiting { waiter.turn.give(false) }
    }
}

extension RateLimiter.Bucket {
    /// Takes a token.
    ///
    /// - Returns: how long until there is one; nil where it has been taken.
    fileprivate mutating func take(_ interval: Duration, burst: Int, at now: Duration) -> Duration? {
        let from = max(full, now)
        let left = from - interval * (burst - 1) - now
        if left > .zero { return left }
        full = from + interval
        return nil
    }
}

extension RateLimiter.State {
    /// Takes a waiter out of its line.
    ///
    /// - Returns: who is the first by that.
    fileprivate mutating func remove(_ id: Int, _ host: String) -> RateLimiter.Waiter? {
        guard let place = buckets[host]?.waiting.firstIndex(where: { $0.id == id }) else { return nil }
        buckets[host]?.waiting.remove(at: place)
        waiting -= 1
        return place == 0 ? buckets[host]?.waiting.first : nil
    }

    /// Forgets full buckets: they are like those of hosts that were never asked. Each look through them is paid for by as
    /// many new ones.
    fileprivate mutating func prune(at now: Duration) {
        guard buckets.count >= pruneAt else { return }
        buckets = buckets.filter { !$0.value.waiting.isEmpty || $0.value.full > now }
        pruneAt = max(RateLimiter.fewBuckets, buckets.count * 2)
    }
}
