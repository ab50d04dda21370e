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
    /// What this process has, and since when: renewed until it is given back. Bounded by the fetches that are under way.
    private let held = Mutex<[OriginPass: ContinuousClock.Instant]>([:])

    /// A pass of somebody who died is forgotten after so long: until then it takes a place at its host.
    private static let passLifetime: Duration = .seconds(15)
    private static let renewInterval: Duration = .seconds(5)
    /// Breaks in a row that cost a job no attempt: 5, 10 and 20 s with the usual limits.
    private static let freeBreaks = 3
    /// What a 429 or 503 without a Retry-After is taken to mean.
    private static let defaultPause: Duration = .seconds(1)
    /// A Retry-After beyond it is not believed.
    private static let longestPause: Duration = .seconds(3600)

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
        let token = String(UInt64.random(in: .min ... .max), radix: 36)
        let reply: RedisValue
        do {
            reply = try await redis.run(
                HostScripts.enter,
                keys: [keys.rate, keys.fetching(host)],
                arguments: [
                    .string(host), .string(token), .string(String(limits.rate ?? 0)), .int(burst),
                    .int(limits.concurrency), .int(limits.breakAfter), .int(Self.passLifetime.wholeMilliseconds),
                ]
            )
        } catch {
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
            throw ImagePipeline.Error(
                .throttled,
                "\(host) is asked as often as it may be; its turn comes.",
                retryAfter: wait
            )
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
            held.withLock { $0[pass] = .now }
            return pass
        }
    }

    public func leave(_ pass: OriginPass, _ outcome: OriginOutcome) async {
        guard let token = pass.token else { return }
        let began = held.withLock { $0.removeValue(forKey: pass) }
        let took = began.map { Int($0.duration(to: .now).inSeconds * 1_000_000) } ?? 0
        let (word, pause): (RedisArgument, Duration) =
            switch outcome {
            case .answered: ("answered", .zero)
            case .failed: ("failed", .zero)
            case .none: ("none", .zero)
            case .throttled(let seconds):
                ("throttled", min(seconds.map { .seconds($0) } ?? Self.defaultPause, Self.longestPause))
            }
        do {
            try await redis.run(
                HostScripts.leave,
                keys: [keys.rate, keys.fetching(pass.host)],
                arguments: [
                    .string(pass.host), .string(token), word, .int(pause.wholeMilliseconds), .int(limits.breakAfter),
                    .int(limits.breakTime.wholeMilliseconds), .int(limits.longestBreak.wholeMilliseconds),
                    .int(took),
                ]
            )
        } catch {
            // The pass runs out by itself.
            logger.debug("a pass was not given back", metadata: [LogKey.error: "\(error)"])
        }
    }

    /// Renews what is held, until the task is cancelled. Without it a pass is forgotten after 15 s.
    public func run() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: Self.renewInterval)  // Cancelled: the loop's condition ends it.
            if !Task.isCancelled { await renew() }
        }
    }

    /// Prolongs all passes of this process, in one round trip.
    func renew() async {
        let passes = held.withLock { Array($0.keys) }
        if passes.isEmpty { return }
        do {
            _ = try await redis.run(
                HostScripts.renew,
                calls: passes.map { pass in
                    (
                        [keys.fetching(pass.host)],
                        [.string(pass.token ?? ""), .int(Self.passLifetime.wholeMilliseconds)]
                    )
                }
            )
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

    /// `host:port`, in lower case.
    static func name(of url: URL) -> String {
        let port = url.port ?? (url.scheme?.lowercased() == "http" ? 80 : 443)
        return "\(url.host()?.lowercased() ?? ""):\(port)"
    }
}
