public import Foundation
public import Logging
public import MegatonPipeline
public import MegatonRedis
import Synchronization

/// Rate limiter of requests to origins, shared by the whole cluster: rate, concurrency, Retry-After, and a circuit
/// breaker.
///
/// The caller acquires a permit right before it fetches, not at admission: data in a cache costs its host nothing. A
/// job that must wait goes back to the queue with the time at which its turn is likely to be, so that a throttled host
/// occupies no slot of any worker. If the control Redis cannot be reached, every request may pass.
public final class HostGate: OriginGating {
    private let redis: RedisClient
    private let keys: QueueKeys
    private let limits: HostLimits
    private let logger: Logger
    private let statistics: StatisticsRecorder?
    private let history: History?
    private let state = Mutex(State())
    /// Signaled when a permit is kept for the next request.
    private let hasSpares = Trigger()

    /// A permit in use.
    private struct Use {
        let began: ContinuousClock.Instant
        /// When Redis granted it, for this request or an earlier one.
        let given: ContinuousClock.Instant
        /// Whether the host was healthy then, and far from its limits.
        let isCalm: Bool
        /// The requested path and query, as a number that fits into a double of Lua.
        let path: Int
    }

    private struct State {
        /// Permits that this process uses, renewed until they are released. Bounded by the fetches in progress.
        var held: [OriginPass: Use] = [:]
        var spares = SparePasses()
        /// Whether `run` is active, which releases spare permits.
        var isRunning = false
    }

    /// Time after which Redis forgets the permit of a process that died; until then it occupies a slot of its host.
    static let passLifetime: Duration = .seconds(15)
    private static let renewInterval: Duration = .seconds(5)
    /// Number of consecutive circuit openings that cost a job no attempt: 5, 10 and 20 s with the default limits.
    private static let freeBreaks = 3
    /// Pause after a 429 or 503 without a Retry-After.
    private static let defaultPause: Duration = .seconds(1)
    /// Longest pause; a longer Retry-After is cut to it.
    private static let longestPause: Duration = .seconds(NegativePolicy.longestRequestedDelay)

    public convenience init(redis: RedisClient, keys: QueueKeys, limits: HostLimits, logger: Logger) {
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
    public func enter(_ url: URL) async throws(ImagePipeline.Error) -> OriginPass {
        let host = Self.name(of: url)
        let asked = ContinuousClock.now
        let path = Self.path(of: url)
        var (spare, unused) = spare(host, path, at: asked)
        if let spare {
            await history?.note(HistoryEvent(.fetch, key: Self.label(of: url)))
            return spare
        }
        let token = String(UInt64.random(in: .min ... .max), radix: 36)
        let reply: RedisValue
        do {
            let arguments: [RedisArgument] = [
                .string(host), .string(token), .string(String(limits.rate ?? 0)), .int(burst),
                .int(limits.concurrency), .int(limits.breakAfter), .int(Self.passLifetime.wholeMilliseconds),
            ]
            // The same round trip releases the permits that this process no longer uses.
            let replies = try await redis.run(
                HostScripts.enter,
                after: unused.map { leaving in
                    let (keys, arguments) = ending(of: leaving)
                    return HostScripts.leave.call(keys: keys, arguments: arguments)
                },
                calls: [([keys.rate, keys.fetching(host)], arguments)]
            )
            // A release failed: Redis was restarted and does not know the script, for example.
            let refused = zip(unused, replies.commands).filter { if case .error = $1 { true } else { false } }
            if !refused.isEmpty { await giveBack(unused: refused.map(\.0)) }
            unused = []
            if case .error(let text) = replies.calls[0] { throw RedisError(reply: text) }
            reply = replies.calls[0]
        } catch {
            keep(unused)
            statistics?.add("gate_open", 1)
            logger.debug("no politeness: Redis is away", metadata: [LogKey.error: "\(error)"])
            await history?.note(HistoryEvent(.fetch, key: Self.label(of: url)))
            return OriginPass(host: host, token: nil)
        }
        let fields = reply.array ?? []
        let wait = Double(fields.dropFirst().first?.int ?? 0) / 1000
        switch fields.first?.string {
        case "wait":
            statistics?.add("throttled", 1)
            let left = Double(fields.dropFirst(2).first?.int ?? 0) / 1000
            guard left > 0 else {
                throw ImagePipeline.Error(
                    .throttled,
                    "\(host) is asked as often as it may be; its turn comes.",
                    retryAfter: wait
                )
            }
            var error = ImagePipeline.Error(
                .throttled,
                "\(host) answered 429 or 503 to different paths, and asks not to be asked again for another "
                    + "\(Int(left.rounded(.up))) s.",
                retryAfter: wait
            )
            error.requestedDelay = left
            throw error
        case "open":
            statistics?.add("broken_off", 1)
            // A short outage costs no attempt. A host that stays away uses up attempts, or its jobs would never end.
            let isLong = fields.last?.int ?? 0 > Self.freeBreaks
            throw ImagePipeline.Error(
                isLong ? .unreachable : .throttled,
                "\(host) failed \(limits.breakAfter) times or more in a row and is broken off; it is probed in "
                    + "\(String(format: "%.1f", wait)) s.",
                retryAfter: wait
            )
        default:
            await history?.note(HistoryEvent(.fetch, key: Self.label(of: url)))
            let pass = OriginPass(host: host, token: token)
            let use = Use(began: .now, given: asked, isCalm: fields.last?.int == 1, path: path)
            state.withLock { $0.held[pass] = use }
            return pass
        }
    }

    /// A spare permit that can be reused, or else the unused permits to release.
    private func spare(
        _ host: String,
        _ path: Int,
        at now: ContinuousClock.Instant
    ) -> (OriginPass?, unused: [SparePasses.Leaving]) {
        state.withLock { state in
            guard let (pass, given) = state.spares.take(host, at: now) else {
                return (nil, state.spares.unused(at: now))
            }
            state.held[pass] = Use(began: now, given: given, isCalm: true, path: path)
            return (pass, [])
        }
    }

    public func leave(_ pass: OriginPass, _ outcome: OriginOutcome) async {
        guard pass.token != nil else { return }
        let now = ContinuousClock.now
        let (use, isKept, others) = state.withLock { state -> (Use?, Bool, [OriginPass]) in
            let use = state.held.removeValue(forKey: pass)
            guard outcome == .answered else {
                return (use, false, outcome == .none ? [] : state.spares.distrust(pass.host, at: now))
            }
            guard limits.rate == nil, state.isRunning, let use, use.isCalm else { return (use, false, []) }
            return (use, state.spares.put(pass, given: use.given, at: now), [])
        }
        if isKept { return hasSpares.fire() }
        if !others.isEmpty { await giveBack(others, nil) }
        await giveBack([pass], outcome, took: use.map { $0.began.duration(to: now) } ?? .zero, path: use?.path ?? 0)
    }

    /// Outcome of spare permits: their responses came a while ago, and other processes may have newer results of the
    /// host.
    private static let earlier: RedisArgument = "earlier"

    private func giveBack(unused: [SparePasses.Leaving]) async {
        if await !tell(unused.map { ending(of: $0) }) { keep(unused) }
    }

    /// Keeps permits for another release a moment later. Until they are released or expire, they occupy slots of their
    /// hosts.
    private func keep(_ unused: [SparePasses.Leaving]) {
        let isKept = state.withLock { state in
            guard state.isRunning, !unused.isEmpty else { return false }
            state.spares.keep(unused)
            return true
        }
        if isKept { hasSpares.fire() }
    }

    /// - Parameter outcome: nil for spare permits.
    private func giveBack(
        _ passes: [OriginPass],
        _ outcome: OriginOutcome?,
        took: Duration = .zero,
        path: Int = 0
    ) async {
        let (word, pause): (RedisArgument, Duration) =
            switch outcome {
            case nil: (Self.earlier, .zero)
            case .answered: ("answered", .zero)
            case .failed: ("failed", .zero)
            case .some(.none): ("none", .zero)
            case .throttled(let seconds):
                ("throttled", min(seconds.map { .seconds($0) } ?? Self.defaultPause, Self.longestPause))
            }
        if await tell(passes.map { ending(of: $0, word, pause: pause, took: took, path: path) }) { return }
        let until = ContinuousClock.now + Self.passLifetime
        // A permit without a token occupies no slot.
        keep(passes.filter { $0.token?.isEmpty == false }.map { SparePasses.Leaving(pass: $0, until: until) })
    }

    /// Releases permits in one round trip.
    ///
    /// - Returns: whether Redis acknowledged all of them.
    private func tell(_ endings: [(keys: [String], arguments: [RedisArgument])]) async -> Bool {
        do {
            let replies = try await redis.run(HostScripts.leave, calls: endings)
            for case .error(let text) in replies { throw RedisError(reply: text) }
            return true
        } catch {
            logger.debug("passes were not given back", metadata: [LogKey.error: "\(error)"])
            return false
        }
    }

    private func ending(of leaving: SparePasses.Leaving) -> (keys: [String], arguments: [RedisArgument]) {
        ending(of: leaving.pass, leaving.isLate ? "none" : Self.earlier)
    }

    /// Keys and arguments for the script `leave`.
    private func ending(
        of pass: OriginPass,
        _ word: RedisArgument,
        pause: Duration = .zero,
        took: Duration = .zero,
        path: Int = 0
    ) -> (keys: [String], arguments: [RedisArgument]) {
        (
            [keys.rate, keys.fetching(pass.host)],
            [
                .string(pass.host), .string(pass.token ?? ""), word, .int(pause.wholeMilliseconds),
                .int(limits.breakAfter), .int(limits.breakTime.wholeMilliseconds),
                .int(limits.longestBreak.wholeMilliseconds), .int(Int(took.inSeconds * 1_000_000)), .int(path),
            ]
        )
    }

    /// Renews the permits in use until the task is canceled; without renewal a permit expires after 15 s. While this
    /// runs, a permit serves several requests if its host is healthy; at the end the remaining permits are released.
    public func run() async {
        state.withLock { $0.isRunning = true }
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                while !Task.isCancelled {
                    try? await Task.sleep(for: Self.renewInterval)  // Canceled: the loop's condition ends it.
                    if !Task.isCancelled { await self.renew() }
                }
            }
            group.addTask { await self.giveUnusedBack() }
        }
        let left = state.withLock { state in
            state.isRunning = false
            return state.spares.removeAll(at: .now)
        }
        if !left.isEmpty { await giveBack(unused: left) }  // A permit that cannot be released now expires.
    }

    private func giveUnusedBack() async {
        while !Task.isCancelled {
            if state.withLock({ $0.spares.isEmpty }) { await hasSpares.wait() }
            try? await Task.sleep(for: SparePasses.rest)  // Canceled: the loop's condition ends it.
            let unused = state.withLock { $0.spares.unused(at: .now) }
            if !unused.isEmpty { await giveBack(unused: unused) }
        }
    }

    /// Renews all permits of this process in one round trip.
    func renew() async {
        let passes = state.withLock { Array($0.held.keys) }
        if passes.isEmpty { return }
        do {
            let replies = try await redis.run(
                HostScripts.renew,
                calls: passes.map { pass in
                    (
                        [keys.fetching(pass.host)],
                        [.string(pass.token ?? ""), .int(Self.passLifetime.wholeMilliseconds)]
                    )
                }
            )
            for case .error(let text) in replies { throw RedisError(reply: text) }
        } catch {
            logger.debug("passes were not renewed", metadata: [LogKey.error: "\(error)"])
        }
    }

    /// At a slow rate, at most one second's worth of requests at once.
    private var burst: Int { min(limits.burst, max(1, Int(limits.rate ?? 1))) }

    /// Label of a URL in the history, host and hash: it distinguishes URLs, and reveals no signature in one.
    static func label(of url: URL) -> String {
        "\(name(of: url))/\(CacheEntry.sha256(Data(url.absoluteString.utf8)).prefix(16))"
    }

    /// The path and the query as a number from 1 to 2⁴⁸.
    private static func path(of url: URL) -> Int {
        let text = url.path(percentEncoded: true) + "?" + (url.query(percentEncoded: true) ?? "")
        return Int(CacheEntry.sha256(Data(text.utf8)).prefix(12), radix: 16).map { $0 + 1 } ?? 1
    }

    /// `host:port`, in lower case.
    static func name(of url: URL) -> String {
        let port = url.port ?? (url.scheme?.lowercased() == "http" ? 80 : 443)
        return "\(url.host()?.lowercased() ?? ""):\(port)"
    }
}
