internal import Foundation
import Synchronization

/// Puts what was fetched into the caches: at once where somebody wants it by then, and later where one comes who does.
final class OriginalKeeping: Sendable {
    private struct State {
        var isKept: Bool
        var task: Task<Void, Never>
    }

    private let flights: any FlightCoordinating
    /// Where the entry goes: its own key if nothing else is said.
    private let places: [CacheKey]
    private let isShared: Bool
    private let lead: FlightLead?
    /// Nil where the bytes must not be kept.
    private let entry: CachedData?
    private let willCache: (@Sendable (Data) async -> Data?)?
    private let copies: CopyGate?
    private let state: Mutex<State>

    /// Ends the flight at once, whoever is cancelled meanwhile: others wait for it.
    ///
    /// - Parameters:
    ///   - lead: nil where no flight was begun, as the caches were not to be asked.
    ///   - shared: where the entry goes in the place of `key`; nil if it goes there.
    ///   - isReplacing: whether the first of `shared` has an entry, which must not outlive this answer.
    ///   - isWanted: whether somebody wants the entry kept.
    ///   - willCache: what is kept in the place of the bytes; nil for these.
    ///   - copies: admits what is stored; nil admits all.
    init(
        _ flights: any FlightCoordinating,
        _ key: CacheKey,
        _ lead: FlightLead?,
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
        // Unstructured, as it belongs to all who want these bytes. It ends by itself, within the
        // cache's own time-outs and the limit that `willCache` has.
        let task = Task {
            let kept = await kept?.replaced(willCache)
            let isDone = await copies.perform(kept) {
                if let lead, !isShared || kept == nil {
                    await flights.finish([(lead, kept)])
                    if isReplacing { for place in places { await flights.discard(place) } }
                } else if let kept {
                    for place in places { await flights.keep(kept, for: place) }
                    // The entry is elsewhere: those who wait look there first.
                    guard let lead else { return }
                    // Neither they nor a later request must meet an earlier failure there.
                    await flights.remember(nil, for: lead.key)
                    await flights.fail([lead], error: .init(.cancelled, "The entry is under a shared key."))
                }
            }
            if let lead, !isDone { await flights.finish([(lead, nil)]) }
        }
        state = Mutex(State(isKept: kept != nil, task: task))
    }

    /// Keeps the entry, if nobody has wanted that before.
    func keep() {
        guard let entry else { return }
        state.withLock { state in
            if state.isKept { return }
            state.isKept = true
            // Unstructured, as the one before, which it follows: that may forget what was there.
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

    /// Returns when everything that was wanted so far is kept.
    func ended() async { await state.withLock { $0.task }.value }
}

extension CopyGate? {
    /// Does what stores an entry, if it is not too many bytes at once.
    @discardableResult
    fileprivate func perform(_ entry: CachedData?, _ work: () async -> Void) async -> Bool {
        if let self, let entry { return await self.perform(entry.data, work) }
        await work()
        return true
    }
}

extension CachedData {
    /// The entry with what is to be kept in the place of its bytes.
    fileprivate func replaced(_ willCache: (@Sendable (Data) async -> Data?)?) async -> CachedData? {
        guard let willCache else { return self }
        guard let other = await willCache(data) else { return nil }
        return other == data ? self : CachedData(data: other, metadata: metadata)
    }
}
