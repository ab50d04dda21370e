import Synchronization

/// Which copies of a shared cache's entries still answer: those that are young, and were seen after the last change.
final class LocalTrust: Sendable {
    fileprivate struct State {
        /// What was seen until then is not trusted.
        var floor = Int64.min
        /// By key: what was seen until then is not trusted.
        var changes: [String: Int64] = [:]
    }

    /// Nanoseconds since 1970, as copies on a disk outlive the process. Where the clock is set, the shared cache is asked
    /// more often, and what is fresh may be so for as much longer.
    let date: @Sendable () -> Int64
    private let lifetime: Int64
    private let limit: Int
    private let state = Mutex(State())
    private let observation = Mutex<(any Cancellable)?>(nil)

    /// - Parameters:
    ///   - lifetime: how long a copy is trusted.
    ///   - limit: changes that are remembered.
    init(_ lifetime: Duration, limit: Int = 65_536, date: @escaping @Sendable () -> Int64) {
        // Of 292 years and more there are no nanoseconds.
        let seconds = min(lifetime.components.seconds, 1_000_000_000)
        self.lifetime = seconds * 1_000_000_000 + lifetime.components.attoseconds / 1_000_000_000
        self.limit = limit
        self.date = date
    }

    deinit { observation.withLock { $0 }?.cancel() }

    /// What is to end with this: the hearing of what others have deleted.
    func endWith(_ observation: any Cancellable) { self.observation.withLock { $0 = observation } }

    func isTrusted(_ key: String, seen: Int64) -> Bool {
        let now = date()
        guard seen <= now, seen > now - lifetime else { return false }
        return state.withLock { seen > $0.floor && seen > $0.changes[key] ?? .min }
    }

    /// An entry has changed, or any may have where the key is nil: what was seen until now does not answer any more.
    func distrust(_ key: String?) {
        state.withLock { state in
            let now = date()
            state.change(key, now, oldest: now - lifetime, limit: limit)
        }
    }

    /// An entry was changed from here.
    ///
    /// - Parameter since: when that began.
    /// - Returns: as when the new one counts as seen; nil where somebody else may have changed it meanwhile.
    func change(_ key: String, since: Int64) -> Int64? {
        state.withLock { state -> Int64? in
            let now = date()
            if max(state.floor, state.changes[key] ?? .min) > since { return nil }
            state.change(key, now - 1, oldest: now - lifetime, limit: limit)
            return now
        }
    }
}

extension LocalTrust.State {
    /// - Parameter oldest: what was seen before is not trusted anyway.
    fileprivate mutating func change(_ key: String?, _ time: Int64, oldest: Int64, limit: Int) {
        guard let key else { return (floor, changes) = (time, [:]) }
        changes[key] = time
        if changes.count <= limit { return }
        changes = changes.filter { $0.value > oldest }
        // Too many to be told apart: the shared cache is asked about all of them again.
        if changes.count > limit / 2 { (floor, changes) = (time, [:]) }
    }
}
