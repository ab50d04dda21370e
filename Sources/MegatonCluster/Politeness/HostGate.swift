public import Foundation
public import Logging
public import MegatonPipeline
public import MegatonRedis
import Synchronization

/// Politeness towards origins, shared by the whole cluster: rate, concurrency, Retry-After, and a circuit breaker.
///
/// Asked by whoever is about to fetch, not at admission: what a cache has costs its host nothing. A job that must wait
/// goes back with the time at which its turn is likely to be, so that a throttled host holds no place in any worker.
/// Where the control Redis cannot be reached everybody may pass.
public final class HostGate: OriginGating {
    private let redis: RedisClient
    private let keys: QueueKeys
    private let limits: HostLimits
    private let logger: Logger
    private let statistics: StatisticsRecorder?
    private let history: History?
    private let state = Mutex(State())
    /// Fired when a pass is kept for the next request.
    private let hasSpares = Trigger()

    /// A pass in use.
    private struct Use {
        let began: ContinuousClock.Instant
        /// By Redis, for this request or one before.
        let given: ContinuousClock.Instant
        /// Whether the host was well then, and far from its limits.
        let isCalm: Bool
        /// The requested time, as a number that fits into a double of Lua.
        let path: Int
    }

    private struct State {
        /// What this process uses: renewed until it is given back. Bounded by the fetches that are under way.
        var held: [OriginPass: Use] = [:]
        var spares = SparePasses()
        /// Whether there is somebody who gives spare ones back.
        var isRunning = false
    }

    /// A pass of somebody who died is forgotten after so long: until then it takes a place at its host.
    static let passLifetime: Duration = .seconds(15)
    private static let renewInterval: Duration = .seconds(5)
    /// Breaks in a row that cost a job no attempt: 5, 10 and 20 s with the usual limits.
    private static let freeBreaks = 3
    /// What a 429 or 503 without a Retry-After is taken to mean.
    private static let defaultPause: Duration = .seconds(1)
    /// A Retry-After beyond it is not believed.
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

    /// - Throws: `.throttled` where the host's turn is later, or it was broken off a moment ago; `.unreachable` where it
    ///   has been for long. Both say when to come back.
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
            // What this process has no more use for goes back on the way.
            let replies = try await redis.run(
                HostScripts.enter,
                after: unused.map { leaving in
                    let (keys, arguments) = ending(of: leaving)
                    return HostScripts.leave.call(keys: keys, arguments: arguments)
                },
                calls: [([keys.rate, keys.fetching(host)], arguments)]
            )
            // Redis has been restarted and does not know the script, say.
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
            // A short break is nobody's fault; a host that stays away uses attempts up, or its jobs would never end.
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

    /// One that has served and may serve again; else what is to go back.
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

    /// What spare passes are given back with: their answers came a while ago, and others may know more of the host by now.
    private static let earlier: RedisArgument = "earlier"

    private func giveBack(unused: [SparePasses.Leaving]) async {
        if await !tell(unused.map { ending(of: $0) }) { keep(unused) }
    }

    /// Tries again a moment later. Until they are back, or forgotten, they take places at their hosts.
    private func keep(_ unused: [SparePasses.Leaving]) {
        let isKept = state.withLock { state in
            guard state.isRunning, !unused.isEmpty else { return false }
            state.spares.keep(unused)
            return true
        }
        if isKept { hasSpares.fire() }
    }

    /// - Parameter outcome: nil for spare ones.
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
        // One without a token takes no place.
        keep(passes.filter { $0.token?.isEmpty == false }.map { SparePasses.Leaving(pass: $0, until: until) })
    }

    /// In one round trip.
    ///
    /// - Returns: whether Redis has heard all of it.
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

    /// What the script `leave` is called with.
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

    /// Renews what is held, until the task is cancelled; without it a pass is forgotten after 15 s. Meanwhile a pass serves
    /// several requests where its host is well; what is left of them goes back at the end.
    public func run() async {
        state.withLock { $0.isRunning = true }
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                while !Task.isCancelled {
                    try? await Task.sleep(for: Self.renewInterval)  // Cancelled: the loop's condition ends it.
                    if !Task.isCancelled { await self.renew() }
                }
            }
            group.addTask { await self.giveUnusedBack() }
        }
        let left = state.withLock { state in
            state.isRunning = false
            return state.spares.removeAll(at: .now)
        }
        if !left.isEmpty { await giveBack(unused: left) }  // What cannot go back now runs out by itself.
    }

    private func giveUnusedBack() async {
        while !Task.isCancelled {
            if state.withLock({ $0.spares.isEmpty }) { await hasSpares.wait() }
            try? await Task.sleep(for: SparePasses.rest)  // Cancelled: the loop's condition ends it.
            let unused = state.withLock { $0.spares.unused(at: .now) }
            if !unused.isEmpty { await giveBack(unused: unused) }
        }
    }

    /// Prolongs all passes of this process, in one round trip.
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

    /// Of a slow rate no more than a second's worth at once.
    private var burst: Int { min(limits.burst, max(1, Int(limits.rate ?? 1))) }

    /// For the history, which tells URLs apart and shows no signature that stands in one: the host and a hash.
    static func label(of url: URL) -> String {
        "\(name(of: url))/\(CacheEntry.sha256(Data(url.absoluteString.utf8)).prefix(16))"
    }

    /// The path and the query as a number from 1 up to 2⁴⁸.
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
