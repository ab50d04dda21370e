import Synchronization

/// A memory cache with limits on cost, count and age.
///
/// Eviction uses CLOCK (second chance), as in Nuke since 13.0.5: a read only sets a bit, and an entry due for eviction
/// is spared once if its bit is set. The limits hold at any time, because an insertion evicts before it adds.
final class Cache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct State {
        var entries = CacheEntries<Key, Value>()
        var costLimit: Int
        var countLimit: Int
        var entryCostLimit = 0.1
        var ttl: Duration?

        /// Evicts until this much additional cost and count would fit.
        mutating func makeRoom(forCost cost: Int = 0, count: Int = 0, at now: Duration) {
            entries.evict(downTo: (max(0, costLimit - cost), max(0, countLimit - count)), at: now)
        }
    }

    private let state: Mutex<State>
    private let now: @Sendable () -> Duration

    /// - Parameters:
    ///   - costLimit: maximum total cost of all entries.
    ///   - countLimit: maximum number of entries.
    init(
        costLimit: Int = .max,
        countLimit: Int = .max,
        time: TimeSource = TimeSource(ContinuousClock())
    ) {
        state = Mutex(State(costLimit: costLimit, countLimit: countLimit))
        now = time.now
    }

    /// Maximum total cost. A lower value is enforced at once.
    var costLimit: Int {
        get { state.withLock { $0.costLimit } }
        set { change { $0.costLimit = newValue } }
    }

    /// Maximum number of entries. A lower value is enforced at once.
    var countLimit: Int {
        get { state.withLock { $0.countLimit } }
        set { change { $0.countLimit = newValue } }
    }

    /// An entry is stored only if it costs less than this fraction of `costLimit`, so that one large entry cannot evict
    /// all others. 0.1 by default.
    var entryCostLimit: Double {
        get { state.withLock { $0.entryCostLimit } }
        set { state.withLock { $0.entryCostLimit = newValue } }
    }

    /// Time to live of entries stored without one of their own; nil, the default, means no expiry. A change does not
    /// affect entries that are already stored.
    var ttl: Duration? {
        get { state.withLock { $0.ttl } }
        set { state.withLock { $0.ttl = newValue } }
    }

    /// Total cost, including expired entries that no lookup has removed yet.
    var totalCost: Int { state.withLock { $0.entries.totalCost } }
    /// Number of entries, including expired ones that no lookup has removed yet.
    var totalCount: Int { state.withLock { $0.entries.count } }

    func value(for key: Key) -> Value? {
        let now = now()
        return state.withLock { $0.entries.use(key, at: now) }
    }

    /// Whether there is an entry. Does not count as use.
    func contains(_ key: Key) -> Bool {
        let now = now()
        return state.withLock { $0.entries.contains(key, at: now) }
    }

    /// Stores a value and replaces the present one, which is removed even if the new one costs too much to be stored.
    ///
    /// - Parameters:
    ///   - cost: never negative.
    ///   - ttl: time to live; that of the cache by default.
    /// - Returns: whether the value was stored.
    @discardableResult
    func set(_ value: Value, for key: Key, cost: Int = 0, ttl: Duration? = nil) -> Bool {
        precondition(cost >= 0, "a cost is not negative")
        let now = now()
        return state.withLock { state in
            let isOverwritten = state.entries.remove(key) != nil
            guard Double(cost) < state.entryCostLimit * Double(state.costLimit), state.countLimit > 0 else {
                return false
            }
            state.makeRoom(forCost: cost, count: 1, at: now)
            let expiry = (ttl ?? state.ttl).map { now + $0 }
            state.entries.insert(value, for: key, cost: cost, expiry: expiry, isUsed: isOverwritten)
            return true
        }
    }

    @discardableResult
    func removeValue(for key: Key) -> Value? { state.withLock { $0.entries.remove(key) } }

    func removeAll() { state.withLock { $0.entries = CacheEntries() } }

    /// Evicts until the total cost is at most `limit`.
    func trim(toCost limit: Int) {
        let now = now()
        state.withLock { $0.entries.evict(downTo: (limit, .max), at: now) }
    }

    /// Evicts until there are at most `limit` entries.
    func trim(toCount limit: Int) {
        let now = now()
        state.withLock { $0.entries.evict(downTo: (.max, limit), at: now) }
    }

    private func change(_ body: (inout State) -> Void) {
        let now = now()
        state.withLock { state in
            body(&state)
            state.makeRoom(at: now)
        }
    }
}
