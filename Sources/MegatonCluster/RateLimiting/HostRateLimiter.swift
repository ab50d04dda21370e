package import Foundation
package import Logging
package import MegatonPipeline
package import MegatonRedis
import Synchronization

/// Rate limiter of requests to origins, shared by the whole cluster: rate, concurrency, Retry-After, and a circuit
/// breaker.
///
/// The caller acquires a permit right before it fetches, not at admission: data in a cache costs its host nothing. A
/// job that must wait goes back to the queue, which holds the jobs of the host until its next turn, so that a throttled
/// host occupies no slot of any worker. If the control Redis cannot be reached, or refuses to decide, every request may
/// pass, and a warning says so. Once a request has waited in vain for Redis, the others do not wait: they pass at once
/// until `run` has got an answer.
///
/// The scripts `acquirePermit` and `releasePermit` decide which requests wait and when the circuit breaker opens;
/// `OriginOutcome` decides which ends of requests count as failures of the host.
package final class HostRateLimiter: FetchLimiting {
    private let redis: RedisClient
    private let keys: QueueKeys
    private let limits: HostLimits
    private let logger: Logger
    private let statistics: StatisticsRecorder?
    private let history: History?
    private let state = Mutex(State())
    /// Signaled when a permit is kept for the next request.
    private let hasIdle = AsyncSignal()
    /// Signaled when Redis has not answered in time.
    private let hasTimedOut = AsyncSignal()
    /// Signaled when a host has begun to answer its first request.
    private let isAnswering = AsyncSignal()

    /// A permit in use.
    private struct Use {
        let started: ContinuousClock.Instant
        /// When Redis granted it, for this request or an earlier one.
        let granted: ContinuousClock.Instant
        /// Whether the host was healthy then, and far from its limits.
        let isHealthy: Bool
        /// The requested path and query, as a number that fits into a double of Lua.
        let path: Int
    }

    private struct State {
        /// Permits that this process uses, renewed until they are released. Bounded by the fetches in progress.
        var inUse: [FetchPermit: Use] = [:]
        var cache = PermitCache()
        /// Hosts that have begun to answer their first request, when that was, and whether `run` has reported it.
        /// Bounded by the fetches in progress: the end of one removes its host.
        var answering: [String: (start: ContinuousClock.Instant, isReported: Bool)] = [:]
        /// Whether `run` is active, which releases unused permits.
        var isRunning = false
        /// The failure that was logged; nil while Redis decides.
        var failure: Failure?
        /// Whether Redis has not answered in time, so that no request waits for it until `probe` has an answer.
        var isAway = false
    }

    private struct Failure {
        /// The host whose key it may concern alone; nil if it concerns all hosts of this Redis.
        let host: String?
    }

    /// Time after which Redis forgets the permit of a process that died; until then it occupies a slot of its host.
    static let permitLifetime: Duration = .seconds(15)
    private static let renewInterval: Duration = .seconds(5)
    /// Pause between two questions to a Redis that does not answer. Each waits up to the timeout of a command, in which
    /// the client goes on connecting.
    private static let probeInterval: Duration = .milliseconds(250)
    /// Time in which the body of a first answer usually ends.
    private static let answerPause: Duration = .milliseconds(40)
    /// Shortest time between two reports of first answers.
    private static let answerInterval: Duration = .milliseconds(10)
    /// Pause after a 429 or 503 without a Retry-After.
    private static let defaultPause: Duration = .seconds(1)
    /// Longest pause; a longer Retry-After is cut to it.
    private static let longestPause: Duration = .seconds(NegativePolicy.longestRequestedDelay)

    package convenience init(redis: RedisClient, keys: QueueKeys, limits: HostLimits, logger: Logger) {
        self.init(redis: redis, keys: keys, limits: limits, logger: logger, statistics: nil, history: nil)
    }

    init(
        redis: RedisClient,
        keys: QueueKeys,
        limits: HostLimits,
        logger: Logger,
        statistics: StatisticsRecorder?,
        history: History?
    ) {
        self.redis = redis
        self.keys = keys
        self.limits = limits
        self.logger = logger
        self.statistics = statistics
        self.history = history
    }

    /// Acquires a permit for one request.
    ///
    /// - Throws: `.throttled` if the host's turn is later, or its circuit opened a moment ago; `.unreachable` if the
    ///   circuit has been open for long. Both state when to retry.
    package func acquire(for url: URL) async throws(ImagePipeline.Error) -> FetchPermit {
        try await acquire(for: url) { false }
    }

    /// - Parameter othersWait: whether jobs wait for the host in another shard than the one that keeps its limits;
    ///   called if Redis is asked.
    func acquire(
        for url: URL,
        othersWait: @Sendable () -> Bool
    ) async throws(ImagePipeline.Error) -> FetchPermit {
        if isAway { return await unlimitedPermit(for: url) }
        let host = OriginHost.name(of: url)
        let asked = ContinuousClock.now
        let path = Self.path(of: url)
        var (cached, unused) = cachedPermit(for: host, path: path, at: asked)
        if let cached {
            await history?.note(HistoryEvent(.fetch, key: Self.label(of: url)))
            return cached
        }
        let token = String(UInt64.random(in: .min ... .max), radix: 36)
        let reply: RedisValue
        do throws(RedisError) {
            let arguments: [RedisArgument] = [
                .string(host), .string(token), .string(String(limits.rate ?? 0)), .int(burst),
                .int(limits.concurrency), .int(limits.failureThreshold), .int(Self.permitLifetime.wholeMilliseconds),
                othersWait() ? "1" : "0", .int(limits.firstConcurrency),
            ]
            // The same round trip releases the permits that this process no longer uses.
            let replies = try await redis.run(
                HostScripts.acquirePermit,
                after: unused.map { release in
                    let (keys, arguments) = call(for: release)
                    return HostScripts.releasePermit.call(keys: keys, arguments: arguments)
                },
                calls: [([keys.rate, keys.fetching(host)], arguments)]
            )
            // A release failed: Redis was restarted and does not know the script, for example.
            let refused = zip(unused, replies.commands).filter { if case .error = $1 { true } else { false } }
            if !refused.isEmpty { await release(unused: refused.map(\.0)) }
            unused = []
            if case .error(let text) = replies.calls[0] { throw RedisError(reply: text) }
            reply = replies.calls[0]
        } catch {
            retryLater(unused)
            noteFailure(error, of: host)
            return await unlimitedPermit(for: url)
        }
        noteDecision(on: host)
        switch PermitReply(reply, host: host, limits: limits) {
        case .refused(let error, let counter):
            statistics?.add(counter, 1)
            throw error
        case .granted(let isHealthy, let hasBegun):
            await history?.note(HistoryEvent(.fetch, key: Self.label(of: url)))
            let permit = FetchPermit(host: host, token: token, isFirst: !hasBegun)
            let use = Use(started: .now, granted: asked, isHealthy: isHealthy, path: path)
            state.withLock { $0.inUse[permit] = use }
            return permit
        }
    }

    /// Whether Redis has not answered in time.
    var hasNoAnswer: Bool { state.withLock { $0.isAway } }

    /// Whether no request waits for Redis. Without `run` nothing would find out that it is back.
    private var isAway: Bool { state.withLock { $0.isAway && $0.isRunning } }

    /// Errors after which Redis has had the time of a command to answer, reconnections included. A connection that is
    /// lost is none: during a failover requests wait, so that the limits hold.
    private static let waits: Set<RedisError.Code> = [.unreachable, .timeout, .busy, .notWritable]

    /// Logs that requests pass without limits: a warning for the first one, until Redis decides again.
    private func noteFailure(_ error: RedisError, of host: String) {
        if Self.waits.contains(error.code) {
            state.withLock { $0.isAway = true }
            hasTimedOut.signal()
        }
        // WRONGTYPE, for example: the keys of other hosts may be sound.
        let failure = Failure(host: error.code == .server ? host : nil)
        let isFirst = state.withLock { state in
            // A client that was closed belongs to a worker that ends. A failure of all hosts is news after that of one.
            let isKnown = state.failure.map { $0.host == nil || failure.host != nil } ?? false
            if isKnown || error.code == .closed { return false }
            state.failure = failure
            return true
        }
        let message: Logger.Message =
            error.isTransient
            ? "host limits are off until Redis answers; requests to origins pass without a limit"
            : """
            host limits are off, as Redis refuses them; requests to origins pass without a limit. Grant the rights \
            that docs/credentials.md lists, or delete the keys if they are of another type
            """
        logger.log(
            level: isFirst ? .warning : .debug,
            message,
            metadata: [LogKey.keys: "\(keys.rate) \(keys.fetching(host))", LogKey.error: "\(error)"]
        )
    }

    private func noteDecision(on host: String) {
        let isBack = state.withLock { state in
            guard let failure = state.failure, failure.host == nil || failure.host == host else { return false }
            state.failure = nil
            return true
        }
        if isBack { logger.notice("host limits apply again") }
    }

    /// A permit for a request while Redis is unreachable.
    func unlimitedPermit(for url: URL) async -> FetchPermit {
        statistics?.add("gate_open", 1)
        await history?.note(HistoryEvent(.fetch, key: Self.label(of: url)))
        return FetchPermit(host: OriginHost.name(of: url), token: nil)
    }

    /// A cached permit that can be reused, or else the unused permits to release.
    private func cachedPermit(
        for host: String,
        path: Int,
        at now: ContinuousClock.Instant
    ) -> (FetchPermit?, unused: [PermitCache.Release]) {
        state.withLock { state in
            guard let (permit, granted) = state.cache.reuse(host, at: now) else {
                return (nil, state.cache.removeUnused(at: now))
            }
            state.inUse[permit] = Use(started: now, granted: granted, isHealthy: true, path: path)
            return (permit, [])
        }
    }

    package func noteFirstBytes(_ permit: FetchPermit) {
        let isNews = state.withLock { state in
            guard state.isRunning, state.inUse[permit] != nil, state.answering[permit.host] == nil else {
                return false
            }
            state.answering[permit.host] = (.now, false)
            return true
        }
        if isNews { isAnswering.signal() }
    }

    @discardableResult
    package func release(
        _ permit: FetchPermit,
        outcome: OriginOutcome,
        cause: ImagePipeline.Error?
    ) async -> HostTurn? {
        guard permit.token != nil else { return nil }
        let now = ContinuousClock.now
        let (use, isCached, others) = state.withLock { state -> (Use?, Bool, [FetchPermit]) in
            let use = state.inUse.removeValue(forKey: permit)
            if permit.isFirst { state.answering[permit.host] = nil }
            guard outcome == .answered else {
                return (use, false, outcome == .none ? [] : state.cache.invalidate(permit.host, at: now))
            }
            guard limits.rate == nil, state.isRunning, let use, use.isHealthy else { return (use, false, []) }
            return (use, state.cache.store(permit, granted: use.granted, at: now), [])
        }
        if isCached {
            hasIdle.signal()
            return nil
        }
        if !others.isEmpty { await release(others, outcome: nil) }
        let reply = await release(
            [permit],
            outcome: outcome,
            cause: cause,
            took: use.map { $0.started.duration(to: now) } ?? .zero,
            path: use?.path ?? 0
        )
        return reply.flatMap { turn(of: permit.host, $0) }
    }

    /// - Parameter reply: that of the script `releasePermit`.
    /// - Returns: nil if the host is not given up.
    private func turn(of host: String, _ reply: RedisValue) -> HostTurn? {
        let fields = reply.array ?? []
        guard fields.count > 3, let down = fields[1].int, let hasAnswered = fields[2].int, let wait = fields[3].int
        else { return nil }
        let patience = limits.patience(ofHostThatAnswered: hasAnswered != 0)
        guard Double(down) / 1000 > patience.inSeconds else { return nil }
        return HostTurn(host: host, wait: Double(wait) / 1000, interval: 0, isGivenUp: true)
    }

    /// Outcome of unused permits: their responses came a while ago, and other processes may have newer results of the
    /// host.
    private static let earlier: RedisArgument = "earlier"

    private func release(unused: [PermitCache.Release]) async {
        if await report(unused.map { call(for: $0) }) == nil { retryLater(unused) }
    }

    /// Keeps permits for another release a moment later. Until they are released or expire, they occupy slots of their
    /// hosts.
    private func retryLater(_ unused: [PermitCache.Release]) {
        let isKept = state.withLock { state in
            guard state.isRunning, !unused.isEmpty else { return false }
            state.cache.retryLater(unused)
            return true
        }
        if isKept { hasIdle.signal() }
    }

    /// - Parameter outcome: nil for unused permits.
    /// - Returns: the first reply of the script; nil if Redis did not answer.
    @discardableResult
    private func release(
        _ permits: [FetchPermit],
        outcome: OriginOutcome?,
        cause: ImagePipeline.Error? = nil,
        took: Duration = .zero,
        path: Int = 0
    ) async -> RedisValue? {
        let (word, pause): (RedisArgument, Duration) =
            switch outcome {
            case nil: (Self.earlier, .zero)
            case .answered: ("answered", .zero)
            case .failed: ("failed", .zero)
            case .absent: ("absent", .zero)
            case .some(.none): ("none", .zero)
            case .throttled(let seconds):
                ("throttled", min(seconds.map { .seconds($0) } ?? Self.defaultPause, Self.longestPause))
            }
        let failure = cause.map { HostFailure($0) }
        let calls = permits.map { call(for: $0, word, pause: pause, took: took, path: path, failure: failure) }
        if let replies = await report(calls) { return replies.first }
        let expiry = ContinuousClock.now + Self.permitLifetime
        // A permit without a token occupies no slot.
        retryLater(
            permits.filter { $0.token?.isEmpty == false }.map { PermitCache.Release(permit: $0, expiry: expiry) }
        )
        return nil
    }

    /// Releases permits in one round trip.
    ///
    /// - Returns: the replies; nil if Redis did not acknowledge all of them.
    private func report(_ releases: [(keys: [String], arguments: [RedisArgument])]) async -> [RedisValue]? {
        // The image of the request is waiting.
        if isAway { return nil }
        do {
            let replies = try await redis.run(HostScripts.releasePermit, calls: releases)
            for case .error(let text) in replies { throw RedisError(reply: text) }
            return replies
        } catch {
            logger.debug(
                "permits could not be released; they are released later or expire",
                metadata: [LogKey.error: "\(error)"]
            )
            return nil
        }
    }

    private func call(for release: PermitCache.Release) -> (keys: [String], arguments: [RedisArgument]) {
        call(for: release.permit, release.isLate ? "none" : Self.earlier)
    }

    /// Keys and arguments for the script `releasePermit`.
    private func call(
        for permit: FetchPermit,
        _ word: RedisArgument,
        pause: Duration = .zero,
        took: Duration = .zero,
        path: Int = 0,
        failure: HostFailure? = nil
    ) -> (keys: [String], arguments: [RedisArgument]) {
        (
            [keys.rate, keys.fetching(permit.host), keys.held, keys.wake, keys.pace],
            [
                .string(permit.host), .string(permit.token ?? ""), word, .int(pause.wholeMilliseconds),
                .int(limits.failureThreshold), .int(limits.openInterval.wholeMilliseconds),
                .int(limits.maximumOpenInterval.wholeMilliseconds), .int(Int(took.inSeconds * 1_000_000)), .int(path),
                .int(limits.concurrency), .int(limits.firstConcurrency), .string(failure?.word ?? ""),
            ]
        )
    }

    /// Renews the permits in use until the task is cancelled; without renewal a permit expires after 15 s. While this
    /// runs, a permit serves several requests if its host is healthy; at the end the remaining permits are released.
    package func run() async {
        state.withLock { $0.isRunning = true }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await every(Self.renewInterval, startsAtOnce: false) { await self.renew() } }
            group.addTask { await self.releaseUnused() }
            group.addTask { await self.probe() }
            group.addTask { await self.reportAnswers() }
        }
        let left = state.withLock { state in
            state.isRunning = false
            return state.cache.removeAll(at: .now)
        }
        if !left.isEmpty { await release(unused: left) }  // A permit that cannot be released now expires.
    }

    private func releaseUnused() async {
        await repeating(endsWithRound: true) {
            let unused = state.withLock { $0.cache.removeUnused(at: .now) }
            if !unused.isEmpty { await release(unused: unused) }
            if state.withLock({ $0.cache.isEmpty }) { await hasIdle.wait() }
            return PermitCache.idleTime
        }
    }

    /// Reports hosts that have begun to answer, unless their first body ends soon, which says the same.
    private func reportAnswers() async {
        await repeating {
            let now = ContinuousClock.now
            let (hosts, next) = state.withLock { state in
                let waiting = state.answering.filter { !$0.value.isReported }
                let hosts = waiting.filter { $0.value.start.duration(to: now) >= Self.answerPause }.map(\.key)
                for host in hosts { state.answering[host]?.isReported = true }
                return (hosts, waiting.values.map(\.start).min())
            }
            if hosts.isEmpty {
                if let next { return Self.answerPause - next.duration(to: now) }
                await isAnswering.wait()
                return .zero
            }
            do throws(RedisError) {
                let replies = try await redis.run(HostScripts.noteAnswer, calls: hosts.map(call(forAnswerOf:)))
                for case .error(let text) in replies { throw RedisError(reply: text) }
            } catch {
                logger.debug("Redis was not notified of first answers", metadata: [LogKey.error: "\(error)"])
                // Those whose first request has ended since are not there any more.
                state.withLock { state in
                    for host in hosts { state.answering[host]?.isReported = false }
                }
                return Self.probeInterval
            }
            return Self.answerInterval
        }
    }

    /// Keys and arguments for the script `noteAnswer`.
    private func call(forAnswerOf host: String) -> (keys: [String], arguments: [RedisArgument]) {
        ([keys.rate, keys.held, keys.wake], [.string(host)])
    }

    /// Asks a Redis that did not answer in time until it does, in the place of the requests.
    private func probe() async {
        await repeating {
            guard state.withLock({ $0.isAway }) else {
                await hasTimedOut.wait()
                return .zero
            }
            do throws(RedisError) {
                try await redis.send(["EXISTS", .string(keys.rate)])
            } catch {
                // A refusal is an answer, too.
                if error.isTransient {
                    logger.debug("Redis does not answer about hosts yet", metadata: [LogKey.error: "\(error)"])
                    return Self.probeInterval
                }
            }
            state.withLock { $0.isAway = false }
            return .zero
        }
    }

    /// Renews all permits of this process in one round trip.
    func renew() async {
        let permits = state.withLock { Array($0.inUse.keys) }
        if permits.isEmpty { return }
        do {
            let replies = try await redis.run(
                HostScripts.renewPermit,
                calls: permits.map { permit in
                    (
                        [keys.fetching(permit.host)],
                        [.string(permit.token ?? ""), .int(Self.permitLifetime.wholeMilliseconds)]
                    )
                }
            )
            for case .error(let text) in replies { throw RedisError(reply: text) }
        } catch {
            logger.debug("permits could not be renewed", metadata: [LogKey.error: "\(error)"])
        }
    }

    /// At a slow rate, at most one second's worth of requests at once.
    private var burst: Int { min(limits.burst, max(1, Int(limits.rate ?? 1))) }

    /// Label of a URL in the history, host and hash: it distinguishes URLs, and reveals no signature in one.
    static func label(of url: URL) -> String {
        "\(OriginHost.name(of: url))/\(Checksum.sha256(Data(url.absoluteString.utf8)).prefix(16))"
    }

    /// The path and the query as a number from 1 to 2⁴⁸.
    private static func path(of url: URL) -> Int {
        let text = url.path(percentEncoded: true) + "?" + (url.query(percentEncoded: true) ?? "")
        return Int(Checksum.sha256(Data(text.utf8)).prefix(12), radix: 16).map { $0 + 1 } ?? 1
    }
}
