internal import Foundation
import Synchronization

/// Stores a fetched original in the caches: at once if a request wants that by then, else as soon as one does.
final class OriginalCacheWriter: Sendable {
    private struct State {
        var isStored: Bool
        var task: Task<Void, Never>
    }

    private let flights: any SingleFlightCoordinating
    /// Keys under which the entry is stored.
    private let keys: [CacheKey]
    private let isShared: Bool
    private let leader: SingleFlight.Leader?
    /// Nil if the bytes must not be stored.
    private let entry: CachedData?
    private let willCache: (@Sendable (Data) async -> Data?)?
    private let copies: CopyGate?
    private let received: Date
    private let date: @Sendable () -> Date
    private let state: Mutex<State>

    /// Ends the flight at once, regardless of cancellation, as other processes wait for it.
    ///
    /// - Parameters:
    ///   - leader: nil if no flight was started, as the caches were not to be asked.
    ///   - shared: keys under which the entry is stored in place of `key`; nil stores it under `key`.
    ///   - isReplacing: whether the first of `shared` has an entry, which must not outlive this response.
    ///   - isWanted: whether a request wants the entry stored.
    ///   - willCache: returns the bytes to store in place of the original's, or nil to store none. Without it, the
    ///     original's bytes are stored.
    ///   - copies: admits entries on their way to the cache; nil admits all.
    ///   - received: when the lifetime of the entry was counted. The time until it is stored is taken off.
    ///   - date: returns the time.
    init(
        _ flights: any SingleFlightCoordinating,
        _ key: CacheKey,
        _ leader: SingleFlight.Leader?,
        _ entry: CachedData?,
        shared: [CacheKey]? = nil,
        isReplacing: Bool = false,
        isWanted: Bool,
        willCache: (@Sendable (Data) async -> Data?)? = nil,
        copies: CopyGate? = nil,
        received: Date = Date(),
        date: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.copies = copies
        self.received = received
        self.date = date
        self.flights = flights
        self.willCache = willCache
        let (keys, isShared) = (shared ?? [key], shared != nil)
        self.keys = keys
        self.isShared = isShared
        self.leader = leader
        self.entry = entry
        let wanted = isWanted ? entry : nil
        // Unstructured, as it belongs to all requests for these bytes. Bounded by the cache's own timeouts and the time
        // limit of `willCache`.
        let task = Task {
            let stored = await wanted?.replaced(willCache)
            let isDone = await copies.perform(stored) {
                let stored = stored?.elapsed(date().timeIntervalSince(received))
                if let leader, !isShared || stored == nil {
                    await flights.finish([(leader, stored)])
                    if isReplacing { for key in keys { await flights.discard(key) } }
                } else if let stored {
                    for key in keys { await flights.replace(stored, for: key) }
                    // The entry is under a shared key, which waiters look up first.
                    guard let leader else { return }
                    // Neither waiters nor later requests may find an earlier failure there.
                    await flights.remember(nil, for: leader.key)
                    await flights.fail([leader], error: .init(.cancelled, "The entry is under a shared key."))
                }
            }
            if let leader, !isDone { await flights.finish([(leader, nil)]) }
        }
        state = Mutex(State(isStored: wanted != nil, task: task))
    }

    /// Stores the entry, unless it is stored already.
    func store() {
        guard let entry else { return }
        state.withLock { state in
            if state.isStored { return }
            state.isStored = true
            // Unstructured, like the previous task. Runs after it, as that one may discard the old entry.
            state.task = Task {
                [flights, keys, isShared, leader, willCache, copies, received, date, before = state.task] in
                await before.value
                guard let entry = await entry.replaced(willCache) else { return }
                await copies.perform(entry) {
                    let entry = entry.elapsed(date().timeIntervalSince(received))
                    for key in keys {
                        if leader == nil || isShared {
                            await flights.replace(entry, for: key)
                        } else {
                            await flights.store(entry, for: key)
                        }
                    }
                }
            }
        }
    }

    /// Whether a flight ends when the entry is stored.
    var isCoordinated: Bool { leader?.token != nil }

    /// Returns when everything requested so far is stored.
    func isDone() async { await state.withLock { $0.task }.value }
}

extension CopyGate? {
    /// Runs work that stores an entry, as soon as there is memory for the copies.
    @discardableResult
    fileprivate func perform(_ entry: CachedData?, _ work: () async -> Void) async -> Bool {
        if let self, let entry { return await self.perform(entry.data, work) }
        await work()
        return true
    }
}

extension CachedData {
    /// The entry some time after its lifetime was counted.
    fileprivate func elapsed(_ seconds: Double) -> CachedData {
        var entry = self
        entry.metadata = metadata.elapsed(seconds)
        return entry
    }

    /// The entry with the bytes that `willCache` returns.
    fileprivate func replaced(_ willCache: (@Sendable (Data) async -> Data?)?) async -> CachedData? {
        guard let willCache else { return self }
        guard let other = await willCache(data) else { return nil }
        return other == data ? self : CachedData(data: other, metadata: metadata)
    }
}
