internal import Foundation
import Synchronization

/// Stores a fetched original in the caches: at once if a request wants that by then, else as soon as one does.
final class OriginalCacheWriter: Sendable {
    private struct State {
        var isKept: Bool
        var task: Task<Void, Never>
    }

    private let flights: any SingleFlightCoordinating
    /// Keys under which the entry is stored.
    private let places: [CacheKey]
    private let isShared: Bool
    private let lead: SingleFlight.Leader?
    /// Nil if the bytes must not be stored.
    private let entry: CachedData?
    private let willCache: (@Sendable (Data) async -> Data?)?
    private let copies: CopyGate?
    private let state: Mutex<State>

    /// Ends the flight at once, regardless of cancellation, as other processes wait for it.
    ///
    /// - Parameters:
    ///   - lead: nil if no flight was started, as the caches were not to be asked.
    ///   - shared: keys under which the entry is stored in place of `key`; nil stores it under `key`.
    ///   - isReplacing: whether the first of `shared` has an entry, which must not outlive this response.
    ///   - isWanted: whether a request wants the entry stored.
    ///   - willCache: returns the bytes to store in place of the original's, or nil to store none. Without it, the
    ///     original's bytes are stored.
    ///   - copies: admits entries on their way to the cache; nil admits all.
    init(
        _ flights: any SingleFlightCoordinating,
        _ key: CacheKey,
        _ lead: SingleFlight.Leader?,
        _ entry: CachedData?,
        shared: [CacheKey]? = nil,
        isReplacing: Bool = false,
        isWanted: Bool,
        willCache: (@Sendable (Data) async -> Data?)? = nil,
        copies: CopyGate? = nil
    ) {
        self.copies = copies
        self.flights = flights
        self.willCache = willCache
        let (places, isShared) = (shared ?? [key], shared != nil)
        self.places = places
        self.isShared = isShared
        self.lead = lead
        self.entry = entry
        let kept = isWanted ? entry : nil
        // Unstructured, as it belongs to all requests for these bytes. Bounded by the cache's own timeouts and the time
        // limit of `willCache`.
        let task = Task {
            let kept = await kept?.replaced(willCache)
            let isDone = await copies.perform(kept) {
                if let lead, !isShared || kept == nil {
                    await flights.finish([(lead, kept)])
                    if isReplacing { for place in places { await flights.discard(place) } }
                } else if let kept {
                    for place in places { await flights.keep(kept, for: place) }
                    // The entry is under a shared key, which waiters look up first.
                    guard let lead else { return }
                    // Neither waiters nor later requests may find an earlier failure there.
                    await flights.remember(nil, for: lead.key)
                    await flights.fail([lead], error: .init(.cancelled, "The entry is under a shared key."))
                }
            }
            if let lead, !isDone { await flights.finish([(lead, nil)]) }
        }
        state = Mutex(State(isKept: kept != nil, task: task))
    }

    /// Stores the entry, unless it is stored already.
    func keep() {
        guard let entry else { return }
        state.withLock { state in
            if state.isKept { return }
            state.isKept = true
            // Unstructured, like the previous task. Runs after it, as that one may discard the old entry.
            state.task = Task { [flights, places, isShared, lead, willCache, copies, before = state.task] in
                await before.value
                guard let entry = await entry.replaced(willCache) else { return }
                await copies.perform(entry) {
                    for place in places {
                        if lead == nil || isShared {
                            await flights.keep(entry, for: place)
                        } else {
                            await flights.store(entry, for: place)
                        }
                    }
                }
            }
        }
    }

    /// Returns when everything requested so far is stored.
    func ended() async { await state.withLock { $0.task }.value }
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
    /// The entry with the bytes that `willCache` returns.
    fileprivate func replaced(_ willCache: (@Sendable (Data) async -> Data?)?) async -> CachedData? {
        guard let willCache else { return self }
        guard let other = await willCache(data) else { return nil }
        return other == data ? self : CachedData(data: other, metadata: metadata)
    }
}
