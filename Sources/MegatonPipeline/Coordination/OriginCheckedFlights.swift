internal import Foundation

/// A shared coordinator, without its entries from elsewhere: from addresses that this process may not connect to, and
/// from another store of `s3:` URLs.
///
/// A public server may share its cache with workers that fetch from private networks, and only the address of a
/// connection shows where the name of a host leads. For such an entry this process leads without coordination: its own
/// loader resolves the name, and refuses the address or finds a public one. A refusal leaves the entry of the others as
/// it is. Remembered failures have an address, too. An entry of another store is discarded instead: its processes are
/// those of an earlier setting, for the most part, and both stores would never have entries at the same time.
struct OriginCheckedFlights: SingleFlightCoordinating {
    private let shared: any SingleFlightCoordinating
    private let origins: EntryOrigins

    init(_ shared: any SingleFlightCoordinating, _ origins: EntryOrigins) {
        self.shared = shared
        self.origins = origins
    }

    // MARK: - Lookups

    func lookUp(_ keys: [CacheKey]) async -> [CachedData?] { await shared.lookUp(keys).map(permitted) }

    func lookUpStale(_ keys: [CacheKey]) async -> [CachedData?] { await shared.lookUpStale(keys).map(permitted) }

    private func permitted(_ entry: CachedData?) -> CachedData? {
        entry.flatMap { $0.isPermitted(by: origins) ? $0 : nil }
    }

    func begin(_ keys: [CacheKey], after waits: [SingleFlight.Waiter]) async -> [SingleFlight.Decision] {
        await permitted(shared.begin(keys, after: waits), keys)
    }

    func begin(
        _ keys: [CacheKey],
        after waits: [SingleFlight.Waiter],
        maximumFailureAge: Duration?
    ) async -> [SingleFlight.Decision] {
        await permitted(shared.begin(keys, after: waits, maximumFailureAge: maximumFailureAge), keys)
    }

    func begin(
        _ keys: [CacheKey],
        after waits: [SingleFlight.Waiter],
        maximumFailureAge: Duration?,
        known: [CacheKey: CachedData]
    ) async -> [SingleFlight.Decision] {
        await permitted(shared.begin(keys, after: waits, maximumFailureAge: maximumFailureAge, known: known), keys)
    }

    /// Replaces decisions with entries that are not permitted, and gives up the flights that belong to them: the end of
    /// such a flight would replace or remove the entry.
    private func permitted(_ decisions: [SingleFlight.Decision], _ keys: [CacheKey]) async -> [SingleFlight.Decision] {
        var abandoned: [SingleFlight.Leader] = []
        for decision in decisions where !isPermitted(decision) {
            if let leader = decision.leader { abandoned.append(leader) }
        }
        if !abandoned.isEmpty {
            let error = ImageError(.cancelled, "The entry is from elsewhere, and this process does not use it.")
            await shared.fail(abandoned, error: error)
        }
        var permitted: [SingleFlight.Decision] = []
        for (key, decision) in zip(keys, decisions) {
            if isPermitted(decision) {
                permitted.append(decision)
            } else {
                let other = await decisionWithoutOtherStore(key, decision)
                permitted.append(other ?? .lead(SingleFlight.Leader(key: key, token: nil)))
            }
        }
        return permitted
    }

    /// The decision after the entry of another store was discarded; nil if there is none, or another one that is not
    /// permitted.
    private func decisionWithoutOtherStore(
        _ key: CacheKey,
        _ decision: SingleFlight.Decision
    ) async -> SingleFlight.Decision? {
        let entry = decision.entry ?? decision.leader?.stale
        guard origins.isOfOtherStore(entry?.metadata.address) else { return nil }
        await shared.discard(key)
        guard let next = await shared.begin([key], after: []).first, isPermitted(next) else { return nil }
        return next
    }

    private func isPermitted(_ decision: SingleFlight.Decision) -> Bool {
        if case .failed(let error) = decision { return isPermitted(error) }
        return (decision.entry ?? decision.leader?.stale)?.isPermitted(by: origins) ?? true
    }

    private func isPermitted(_ error: ImageError) -> Bool { origins.permits(error.address) }

    func bindingFailure(for key: CacheKey) async -> ImageError? {
        await shared.bindingFailure(for: key).flatMap { isPermitted($0) ? $0 : nil }
    }

    // MARK: - The rest is the shared coordinator's

    func wait(for flight: SingleFlight.Waiter) async { await shared.wait(for: flight) }

    func abandon(_ flight: SingleFlight.Waiter) async { await shared.abandon(flight) }

    func remember(_ error: ImageError?, for key: CacheKey) async { await shared.remember(error, for: key) }

    @discardableResult
    func finish(_ entries: [(leader: SingleFlight.Leader, entry: CachedData?)]) async -> Set<CacheKey> {
        await shared.finish(entries)
    }

    func fail(_ leaders: [SingleFlight.Leader], error: ImageError) async { await shared.fail(leaders, error: error) }

    @discardableResult
    func store(_ entry: CachedData, for key: CacheKey) async -> Bool { await shared.store(entry, for: key) }

    @discardableResult
    func replace(_ entry: CachedData, for key: CacheKey) async -> Bool { await shared.replace(entry, for: key) }

    func discard(_ key: CacheKey) async { await shared.discard(key) }

    func observeDeletions(_ handler: @escaping @Sendable (String?) -> Void) -> any Cancellable {
        shared.observeDeletions(handler)
    }
}
