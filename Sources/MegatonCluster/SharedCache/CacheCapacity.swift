internal import Logging
internal import MegatonCore
internal import MegatonRedis
import Synchronization

/// Whether a cache Redis takes new entries: one that is full and may not evict refuses them (OOM).
///
/// After a refusal it counts as full for a moment. Meanwhile nothing is uploaded only to be refused, and no caller
/// waits for a flight whose entry cannot be stored: otherwise the waiters of a source would ask its origin one after
/// the other, while without a cache all would ask at once. Entries that are in the cache are still found. After the
/// moment one write is tried; the others follow if it succeeds.
final class CacheCapacity: Sendable {
    private struct State {
        /// End of the moment after the last refusal; nil if the last write was accepted.
        var fullUntil: Duration?
        var warned: Duration?
    }

    /// The moment for which a refusal counts.
    static let pause: Duration = .seconds(5)
    /// Minimum time between two warnings.
    private static let warningInterval: Duration = .seconds(600)

    private let address: String
    private let logger: Logger
    private let statistics: StatisticsRecorder?
    private let now: @Sendable () -> Duration
    private let state = Mutex(State())

    init(
        of address: String,
        logger: Logger,
        statistics: StatisticsRecorder?,
        now: @escaping @Sendable () -> Duration = TimeSource(ContinuousClock()).now
    ) {
        self.address = address
        self.logger = logger
        self.statistics = statistics
        self.now = now
    }

    /// Whether the server has refused an entry a moment ago.
    var isFull: Bool {
        let now = now()
        return state.withLock { $0.fullUntil.map { now < $0 } ?? false }
    }

    /// Whether a write may be tried. While the server counts as full, one write is tried at the end of each moment.
    func admitsWrite() -> Bool {
        let now = now()
        let isAdmitted = state.withLock { state in
            guard let until = state.fullUntil else { return true }
            if now < until { return false }
            state.fullUntil = now + Self.pause
            return true
        }
        if !isAdmitted { statistics?.add("cache_full", 1) }
        return isAdmitted
    }

    func noteSuccess() {
        let wasFull = state.withLock { state in
            defer { state.fullUntil = nil }
            return state.fullUntil != nil
        }
        if wasFull {
            logger.info("the cache Redis takes entries again", metadata: ["redis.address": "\(address)"])
        }
    }

    /// Notes the error of a write, if it says that the server is full.
    ///
    /// - Returns: whether it does.
    @discardableResult
    func noteFailure(_ error: any Error) -> Bool {
        guard (error as? RedisError)?.code == .outOfMemory else { return false }
        let now = now()
        let warns = state.withLock { state in
            state.fullUntil = now + Self.pause
            if let warned = state.warned, now - warned < Self.warningInterval { return false }
            state.warned = now
            return true
        }
        statistics?.add("cache_full", 1)
        if warns {
            logger.warning(
                """
                the cache Redis is full and refuses new entries; jobs go on without storing any. Set its \
                maxmemory-policy to allkeys-lru, or to volatile-lru if it holds jobs too, or raise maxmemory
                """,
                metadata: ["redis.address": "\(address)", LogKey.error: "\(error)"]
            )
        }
        return true
    }
}
