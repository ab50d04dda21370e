/// Coalesces concurrent requests for the same entry, so that it is produced once (single flight).
///
/// A flight is the production of one entry by one leader. Flights save work and never decide correctness: a coordinator
/// that cannot reach its peers lets every caller lead.
package protocol SingleFlightCoordinating: Sendable {
    /// Looks up all keys at once. The caller becomes the leader for each key whose entry is neither fresh nor being
    /// produced.
    ///
    /// A leader must end its flight by `finish` or `fail`.
    ///
    /// - Parameter waits: flights that the caller has already waited for. Their entries count as hits, even if the
    ///   origin demands validation for each request: the origin was asked after this request arrived, so that one
    ///   response may serve both (collapsed requests, RFC 9111 section 4).
    func begin(_ keys: [CacheKey], after waits: [SingleFlight.Waiter]) async -> [SingleFlight.Decision]

    /// Like `begin(_:after:)`, for a request that accepts remembered failures up to a given age.
    ///
    /// Two kinds of failure are accepted at any age: one of a flight in `waits`, because the origin was asked after
    /// this request arrived, and one whose origin forbade further requests for now (Retry-After).
    ///
    /// - Parameter maximumFailureAge: time since the failure; nil accepts any remembered failure.
    func begin(
        _ keys: [CacheKey],
        after waits: [SingleFlight.Waiter],
        maximumFailureAge: Duration?
    ) async -> [SingleFlight.Decision]

    /// Like `begin(_:after:maximumFailureAge:)`, for a caller that has copies of entries and does not know whether they
    /// are still current.
    ///
    /// - Parameter known: the copies. If the entry of a key has the same bytes, the result has those of the copy, and
    ///   they need not be sent.
    func begin(
        _ keys: [CacheKey],
        after waits: [SingleFlight.Waiter],
        maximumFailureAge: Duration?,
        known: [CacheKey: CachedData]
    ) async -> [SingleFlight.Decision]

    /// Replaces the remembered failure of a key after the origin was asked without a flight.
    ///
    /// - Parameter error: nil clears the remembered failure.
    func remember(_ error: ImageError?, for key: CacheKey) async

    /// Returns the remembered failure of a key if its origin forbade further requests for now (Retry-After), else nil.
    /// For a request that is about to ask the origin without a flight.
    func bindingFailure(for key: CacheKey) async -> ImageError?

    /// Suspends until the flight has ended or another lookup is worthwhile; never much longer than the leader's lease.
    func wait(for flight: SingleFlight.Waiter) async

    /// Gives up a wait for which `wait` was not called.
    func abandon(_ flight: SingleFlight.Waiter) async

    /// Stores the entries and ends their flights. The data is stored first, so that waiters find it when they resume.
    ///
    /// - Parameter entries: nil ends the flight without storing an entry, and the stale entry is removed. An entry with
    ///   the checksum of the leader's stale entry has the same bytes; only its metadata has changed.
    /// - Returns: keys whose entry was accepted: it was stored and is visible to others, or need not be stored
    ///   (`CachedData.isStoredIfReused`). A key is missing if its entry was refused, e.g. because another flight was
    ///   newer.
    @discardableResult
    func finish(_ entries: [(leader: SingleFlight.Leader, entry: CachedData?)]) async -> Set<CacheKey>

    /// Ends flights with an error, which their waiters receive.
    func fail(_ leaders: [SingleFlight.Leader], error: ImageError) async

    /// Returns the stored entries of these keys in one lookup, without taking the lead for any. An entry may be stale,
    /// see `CachedData.staleness`.
    func lookUp(_ keys: [CacheKey]) async -> [CachedData?]

    /// Like `lookUp(_:)`, but finds stale entries in any case.
    func lookUpStale(_ keys: [CacheKey]) async -> [CachedData?]

    /// Stores an entry that belongs to no flight.
    ///
    /// - Returns: whether the entry was stored and is visible to others.
    @discardableResult
    func store(_ entry: CachedData, for key: CacheKey) async -> Bool

    /// Stores an entry and overwrites the present one even if that is fresh: the origin was asked although there was
    /// one. A coordinator of several processes keeps the present one if its origin was asked later
    /// (`CachedData.Metadata.fetched`), and refuses the result of a flight that began before. An entry with a checksum
    /// comes from the cache itself and was confirmed by the origin: its metadata replaces that of the present one
    /// (RFC 9111 section 4.3.4).
    ///
    /// - Returns: whether the entry was stored and is visible to others.
    @discardableResult
    func replace(_ entry: CachedData, for key: CacheKey) async -> Bool

    /// Removes an entry whose bytes turned out to be unusable, so that the next request fetches it again, and clears
    /// the remembered failure of the key.
    func discard(_ key: CacheKey) async

    /// Reports entries that others delete from now on, so that near caches can drop their copies.
    ///
    /// - Parameter handler: called on any thread; must not block. Its argument is the description of the key, or nil if
    ///   any entry may have been deleted because notifications were lost for a while.
    /// - Returns: an object whose `cancel` ends the observation.
    func observeDeletions(_ handler: @escaping @Sendable (String?) -> Void) -> any Cancellable
}

extension SingleFlightCoordinating {
    /// Begins without earlier waits.
    package func begin(_ keys: [CacheKey]) async -> [SingleFlight.Decision] { await begin(keys, after: []) }

    /// Ignores the age, for coordinators that remember no failures.
    package func begin(
        _ keys: [CacheKey],
        after waits: [SingleFlight.Waiter],
        maximumFailureAge: Duration?
    ) async -> [SingleFlight.Decision] {
        await begin(keys, after: waits)
    }

    /// Ignores the copies, for coordinators that send no bytes.
    package func begin(
        _ keys: [CacheKey],
        after waits: [SingleFlight.Waiter],
        maximumFailureAge: Duration?,
        known: [CacheKey: CachedData]
    ) async -> [SingleFlight.Decision] {
        await begin(keys, after: waits, maximumFailureAge: maximumFailureAge)
    }

    /// Does nothing, for coordinators that remember no failures.
    package func remember(_ error: ImageError?, for key: CacheKey) async {}

    /// Returns nil, for coordinators that remember no failures.
    package func bindingFailure(for key: CacheKey) async -> ImageError? { nil }

    /// Finds nothing, for coordinators that store nothing.
    package func lookUp(_ keys: [CacheKey]) async -> [CachedData?] { Array(repeating: nil, count: keys.count) }

    /// Returns the result of `lookUp(_:)`.
    package func lookUpStale(_ keys: [CacheKey]) async -> [CachedData?] { await lookUp(keys) }

    /// Returns false, for coordinators that store nothing.
    @discardableResult
    package func store(_ entry: CachedData, for key: CacheKey) async -> Bool { false }

    /// Discards the present entry, then stores the new one.
    @discardableResult
    package func replace(_ entry: CachedData, for key: CacheKey) async -> Bool {
        await discard(key)
        return await store(entry, for: key)
    }

    /// Does nothing, for coordinators that do not register waiters.
    package func abandon(_ flight: SingleFlight.Waiter) async {}

    /// Does nothing, for coordinators that store nothing.
    package func discard(_ key: CacheKey) async {}

    /// Reports nothing, for coordinators whose entries no other process deletes.
    package func observeDeletions(_ handler: @escaping @Sendable (String?) -> Void) -> any Cancellable {
        NothingToCancel()
    }
}

/// Values of single-flight coordination; see `SingleFlightCoordinating`.
package enum SingleFlight {
    /// The result of `begin` for one key.
    package enum Decision: Sendable {
        case hit(CachedData)
        /// The entry is no longer fresh but may be served at once. With a leader, the caller is that leader and
        /// revalidates it afterwards. Without one, another leader is revalidating it, or the origin has just failed.
        case stale(CachedData, SingleFlight.Leader?)
        /// Another leader is producing the entry.
        case wait(SingleFlight.Waiter)
        case lead(SingleFlight.Leader)
        /// The last attempt failed so recently that asking the origin again would not help.
        case failed(ImageError)

        /// The leader that the caller has become, whose flight it must end; nil if there is none.
        package var leader: SingleFlight.Leader? {
            switch self {
            case .lead(let leader): leader
            case .stale(_, let leader): leader
            case .hit, .wait, .failed: nil
            }
        }

        /// The entry that may answer the caller; nil if there is none.
        package var entry: CachedData? {
            switch self {
            case .hit(let entry), .stale(let entry, _): entry
            case .lead, .wait, .failed: nil
            }
        }
    }

    /// The caller that produces an entry. Two leaders are equal if their keys and tokens are.
    package struct Leader: Sendable, Hashable {
        package let key: CacheKey
        /// Fencing token, which grows with each flight of the key: a write with an older token is refused. Nil without
        /// coordination.
        package let token: Int?
        /// The entry to replace: its validators are used to revalidate it, its bytes after a 304 or in place of an
        /// error.
        package let stale: CachedData?
        /// For an original: whether this coordinator's cache has the first part of an interrupted download. Nil if that
        /// is not known.
        package let hasPartial: Bool?
        /// For an original: whether it was fetched lately, and not stored because nothing else needed it. Nil if that
        /// is not known.
        package let wasFetched: Bool?
        /// Whether other leaders may produce the same entry concurrently, because the last response could not be
        /// stored. There is no flight to end; the token decides which storable response is stored.
        package let isUnlocked: Bool

        package init(
            key: CacheKey,
            token: Int?,
            stale: CachedData? = nil,
            hasPartial: Bool? = nil,
            wasFetched: Bool? = nil
        ) {
            self.key = key
            self.token = token
            self.stale = stale
            self.hasPartial = hasPartial
            self.wasFetched = wasFetched
            isUnlocked = false
        }

        /// A leader beside others that produce the same entry concurrently.
        package init(unlocked key: CacheKey, token: Int?) {
            self.key = key
            self.token = token
            stale = nil
            hasPartial = nil
            wasFetched = nil
            isUnlocked = true
        }

        package static func == (one: SingleFlight.Leader, other: SingleFlight.Leader) -> Bool {
            one.key == other.key && one.token == other.token
        }

        package func hash(into hasher: inout Hasher) {
            hasher.combine(key)
            hasher.combine(token)
        }
    }

    /// A flight of another leader, for which the caller waits.
    package struct Waiter: Sendable, Hashable {
        package let key: CacheKey
        /// Seconds until the leader's lease expires unless it is renewed.
        package let remaining: Double
        /// Identifies the wait within the coordinator.
        package let ticket: Int
        /// The token of the awaited flight.
        package let token: Int?

        package init(key: CacheKey, remaining: Double, ticket: Int = 0, token: Int? = nil) {
            self.key = key
            self.remaining = remaining
            self.ticket = ticket
            self.token = token
        }
    }
}

/// A subscription that has nothing to cancel.
private struct NothingToCancel: Cancellable {
    func cancel() {}
}
