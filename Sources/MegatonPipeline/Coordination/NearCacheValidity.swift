import Synchronization

/// Decides which copies of shared entries may be served: those that are young and were seen after the last change.
final class NearCacheValidity: Sendable {
    fileprivate struct State {
        /// Copies seen up to this time are not trusted.
        var floor = Int64.min
        /// By key: copies seen up to this time are not trusted.
        var changes: [String: Int64] = [:]
    }

    /// Nanoseconds since 1970, because copies on a disk outlive the process. If the clock is set, the shared cache is
    /// asked more often, and a copy may be considered fresh for as much longer.
    let date: @Sendable () -> Int64
    private let lifetime: Int64
    private let limit: Int
    private let state = Mutex(State())
    private let observation = Mutex<(any Cancellable)?>(nil)

    /// - Parameters:
    ///   - lifetime: how long a copy is trusted.
    ///   - limit: maximum number of remembered changes.
    init(_ lifetime: Duration, limit: Int = 65_536, date: @escaping @Sendable () -> Int64) {
        // An `Int64` of nanoseconds covers 292 years.
        let seconds = min(lifetime.components.seconds, 1_000_000_000)
        self.lifetime = seconds * 1_000_000_000 + lifetime.components.attoseconds / 1_000_000_000
        self.limit = limit
        self.date = date
    }

    deinit { observation.withLock { $0 }?.cancel() }

    /// Ties an observation of deletions to this object, whose `deinit` cancels it.
    func observe(_ observation: any Cancellable) { self.observation.withLock { $0 = observation } }

    func isValid(_ key: String, seen: Int64) -> Bool {
        let now = date()
        guard seen <= now, seen > now - lifetime else { return false }
        return state.withLock { seen > $0.floor && seen > $0.changes[key] ?? .min }
    }

    /// Records that an entry has changed, or that any entry may have changed if the key is nil: copies seen until now
    /// are no longer trusted.
    func invalidate(_ key: String?) {
        state.withLock { state in
            let now = date()
            state.change(key, now, oldest: now - lifetime, limit: limit)
        }
    }

    /// Records that this process has changed an entry.
    ///
    /// - Parameter since: when the change began.
    /// - Returns: the time at which the new entry counts as seen; nil if another process may have changed it meanwhile.
    func change(_ key: String, since: Int64) -> Int64? {
        state.withLock { state -> Int64? in
            let now = date()
            if max(state.floor, state.changes[key] ?? .min) > since { return nil }
            state.change(key, now - 1, oldest: now - lifetime, limit: limit)
            return now
        }
    }
}

extension NearCacheValidity.State {
    /// - Parameter oldest: copies seen before this time have expired anyway.
    fileprivate mutating func change(_ key: String?, _ time: Int64, oldest: Int64, limit: Int) {
        guard let key else { return (floor, changes) = (time, [:]) }
        changes[key] = time
        if changes.count <= limit { return }
        changes = changes.filter { $0.value > oldest }
        // Too many changes to remember by key: distrust all copies, so that the shared cache is asked about each again.
        if changes.count > limit / 2 { (floor, changes) = (time, [:]) }
    }
}
