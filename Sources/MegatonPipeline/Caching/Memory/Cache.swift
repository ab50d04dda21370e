import Synchronization

/// A memory cache with limits on cost, count and age.
///
/// What goes first is found by CLOCK (second chance), as in Nuke since 13.0.5: a read only sets a bit, and who is in line
/// to go is passed over once if its bit is set. Limits hold at any time: an insertion makes room before it takes it.
final class Cache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct State {
        var entries = CacheEntries<Key, Value>()
        var costLimit: Int
        var countLimit: Int
        var entryCostLimit = 0.1
        var ttl: Duration?

        /// Evicts until so much more would fit.
        mutating func makeRoom(forCost cost: Int = 0, count: Int = 0, at now: Duration) {
            entries.evict(downTo: (max(0, costLimit - cost), max(0, countLimit - count)), at: now)
        }
    }

    private let state: Mutex<State>
    private let now: @Sendable () -> Duration

    /// - Parameters:
    ///   - costLimit: the most that the costs of all entries may add up to.
    ///   - countLimit: the most entries.
    init(
        costLimit: Int = .max,
        countLimit: Int = .max,
        time: TimeSource = TimeSource(ContinuousClock())
    ) {
        state = Mutex(State(costLimit: costLimit, countLimit: countLimit))
        now = time.now
    }

    /// Enforced at once where it is lowered.
    var costLimit: Int {
        get { state.withLock { $0.costLimit } }
        set { change { $0.costLimit = newValue } }
    }

    /// Enforced at once where it is lowered.
    var countLimit: Int {
        get { state.withLock { $0.countLimit } }
        set { change { $0.countLimit = newValue } }
    }

    /// An entry is kept only if it costs less than this part of `costLimit`: one large entry must not drive all others
    /// out. 0.1 by default.
    var entryCostLimit: Double {
        get { state.withLock { $0.entryCostLimit } }
        set { state.withLock { $0.entryCostLimit = newValue } }
    }

    /// How long entries live that come without a time of their own; nil, the default, is for ever. What is there already
    /// keeps what it came with.
    var ttl: Duration? {
        get { state.withLock { $0.ttl } }
        set { state.withLock { $0.ttl = newValue } }
    }

    /// Expired entries that nobody has asked for count too.
    var totalCost: Int { state.withLock { $0.entries.totalCost } }
    /// Expired entries that nobody has asked for count too.
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

    /// Keeps a value in the place of the one that the key has, also where the new one is too dear to be kept.
    ///
    /// - Parameters:
    ///   - cost: never negative.
    ///   - ttl: how long it lives; that of the cache by default.
    /// - Returns: whether it was kept.
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

    /// Evicts until the costs add up to so much at the most.
    func trim(toCost limit: Int) {
        let now = now()
        state.withLock { $0.entries.evict(downTo: (limit, .max), at: now) }
    }

    /// Evicts until there are so many entries at the most.
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
