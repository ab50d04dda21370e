import Synchronization

@testable import MegatonCore
@testable import MegatonPipeline

/// A coordinator whose cache is also changed by other processes.
final class SharedFlights: SingleFlightCoordinating {
    private struct State {
        var entries: [CacheKey: CachedData] = [:]
        var asked: [[CacheKey]] = []
        var refuses = false
        var duringLook: (@Sendable () async -> Void)?
        var observers: [Int: @Sendable (String?) -> Void] = [:]
        var observed = 0
    }

    private struct Observation: Cancellable {
        let flights: SharedFlights
        let id: Int

        func cancel() { _ = flights.state.withLock { $0.observers.removeValue(forKey: id) } }
    }

    private let state = Mutex(State())

    var observerCount: Int { state.withLock { $0.observers.count } }

    var entries: [CacheKey: CachedData] {
        get { state.withLock { $0.entries } }
        set { state.withLock { $0.entries = newValue } }
    }

    /// The keys of each lookup.
    var asked: [[CacheKey]] { state.withLock { $0.asked } }
    var looks: Int { asked.count }

    /// Whether it refuses entries, as if another flight were newer.
    var refuses: Bool {
        get { state.withLock { $0.refuses } }
        set { state.withLock { $0.refuses = newValue } }
    }

    /// Called after a lookup has read its entries, before it returns them.
    var duringLook: (@Sendable () async -> Void)? {
        get { state.withLock { $0.duringLook } }
        set { state.withLock { $0.duringLook = newValue } }
    }

    /// Notifies observers that another process has deleted an entry, or all if `key` is nil.
    func tell(_ key: CacheKey?) {
        for observer in state.withLock({ Array($0.observers.values) }) { observer(key?.description) }
    }

    func lookUp(_ keys: [CacheKey]) async -> [CachedData?] {
        let (found, body) = state.withLock { state in
            state.asked.append(keys)
            return (keys.map { state.entries[$0] }, state.duringLook)
        }
        await body?()
        return found
    }

    func begin(_ keys: [CacheKey], after waits: [SingleFlight.Waiter]) async -> [SingleFlight.Decision] {
        zip(keys, await lookUp(keys)).map { key, entry in
            entry.map { .hit($0) } ?? .lead(SingleFlight.Leader(key: key, token: 1))
        }
    }

    func wait(for flight: SingleFlight.Waiter) async {}

    @discardableResult
    func finish(_ entries: [(leader: SingleFlight.Leader, entry: CachedData?)]) async -> Set<CacheKey> {
        state.withLock { state in
            if state.refuses { return [] }
            for (lead, entry) in entries { state.entries[lead.key] = entry }
            return Set(entries.filter { $0.entry != nil }.map(\.leader.key))
        }
    }

    func fail(_ leads: [SingleFlight.Leader], error: ImagePipeline.Error) async {
        state.withLock { state in
            for lead in leads where error.supersedesEntry { state.entries[lead.key] = nil }
        }
    }

    @discardableResult
    func store(_ entry: CachedData, for key: CacheKey) async -> Bool {
        await finish([(SingleFlight.Leader(key: key, token: 1), entry)]) == [key]
    }

    func discard(_ key: CacheKey) async { state.withLock { $0.entries[key] = nil } }

    func observeDeletions(_ handler: @escaping @Sendable (String?) -> Void) -> any Cancellable {
        let id = state.withLock { state in
            state.observed += 1
            state.observers[state.observed] = handler
            return state.observed
        }
        return Observation(flights: self, id: id)
    }
}
