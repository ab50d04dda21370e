/// Sees to it that what several want is made once.
///
/// A flight is the making of one entry by one leader. It saves work and never decides correctness: a coordinator that
/// cannot reach its peers lets everybody lead.
public protocol FlightCoordinating: Sendable {
    /// Looks up all keys at once, and takes the lead of what is neither fresh nor being made.
    ///
    /// Every lead must be ended by `finish` or `fail`.
    ///
    /// - Parameter waits: those that the asker has sat out. What these flights have brought is a hit for it, also where the
    ///   origin wants to be asked about each request: it was asked after this one came, and its one answer serves both
    ///   (collapsed requests, RFC 9111 section 4).
    func begin(_ keys: [CacheKey], after waits: [FlightWait]) async -> [FlightDecision]

    /// As ``begin(_:after:)``, for a request that accepts remembered failures up to an age only.
    ///
    /// A failure of a flight in `waits` is accepted at any age: the origin was asked after this request came. So is one
    /// whose origin asked not to be asked again yet (Retry-After).
    ///
    /// - Parameter maximumFailureAge: since the failure; nil accepts any that is remembered.
    func begin(
        _ keys: [CacheKey],
        after waits: [FlightWait],
        maximumFailureAge: Duration?
    ) async -> [FlightDecision]

    /// Replaces what is remembered of a failure, after the origin was asked without a flight.
    ///
    /// - Parameter error: nil forgets what is remembered.
    func remember(_ error: ImagePipeline.Error?, for key: CacheKey) async

    /// The remembered failure whose origin asked not to be asked again yet (Retry-After), for a request that is about to
    /// go to the origin without a flight; nil if there is none.
    func bindingFailure(for key: CacheKey) async -> ImagePipeline.Error?

    /// Returns when the flight has ended, or when it is worth looking again; never much later than the leader's lease.
    func wait(for flight: FlightWait) async

    /// Gives a wait up that `wait` was not called for.
    func abandon(_ flight: FlightWait) async

    /// Keeps the entries and ends their flights: data first, so that whoever is woken finds it.
    ///
    /// - Parameter entries: nil ends the flight without keeping anything, the stale entry neither. An entry with the
    ///   checksum of the lead's stale one has its bytes: only what is known of them has changed.
    /// - Returns: the keys whose entry is what others find now. The others' is not: another flight was newer, say.
    @discardableResult
    func finish(_ entries: [(lead: FlightLead, entry: CachedData?)]) async -> Set<CacheKey>

    /// Ends flights with an error that those who wait for them are told.
    func fail(_ leads: [FlightLead], error: ImagePipeline.Error) async

    /// What is kept of these keys, in one look and without taking the lead of anything.
    func lookUp(_ keys: [CacheKey]) async -> [CachedData?]

    /// As `lookUp(_:)`, but entries that are no longer fresh are found too.
    func lookUpStale(_ keys: [CacheKey]) async -> [CachedData?]

    /// Keeps an entry that no flight is about.
    ///
    /// - Returns: whether it is what others find now.
    @discardableResult
    func store(_ entry: CachedData, for key: CacheKey) async -> Bool

    /// Keeps an entry in the place of what is there, fresh or not: the origin was asked in spite of that.
    ///
    /// - Returns: whether it is what others find now.
    @discardableResult
    func replace(_ entry: CachedData, for key: CacheKey) async -> Bool

    /// Forgets an entry whose bytes turned out to be of no use, so that they are fetched anew the next time, and what is
    /// remembered of a failure.
    func discard(_ key: CacheKey) async

    /// Tells from now on which entries somebody has deleted, for those who have copies of them.
    ///
    /// - Parameter handler: called on any thread, and must not block. It is given the key's description, or nil where any
    ///   entry may have been deleted: nothing was heard for a while.
    /// - Returns: what ends it.
    func observeDeletions(_ handler: @escaping @Sendable (String?) -> Void) -> any Cancellable
}

extension FlightCoordinating {
    /// A first look.
    public func begin(_ keys: [CacheKey]) async -> [FlightDecision] { await begin(keys, after: []) }

    /// For coordinators that remember no failures.
    public func begin(
        _ keys: [CacheKey],
        after waits: [FlightWait],
        maximumFailureAge: Duration?
    ) async -> [FlightDecision] {
        await begin(keys, after: waits)
    }

    /// Nothing, for coordinators that remember no failures.
    public func remember(_ error: ImagePipeline.Error?, for key: CacheKey) async {}

    /// Nil, for coordinators that remember no failures.
    public func bindingFailure(for key: CacheKey) async -> ImagePipeline.Error? { nil }

    /// Nothing, for coordinators that keep nothing.
    public func lookUp(_ keys: [CacheKey]) async -> [CachedData?] { Array(repeating: nil, count: keys.count) }

    /// The result of `lookUp(_:)`.
    public func lookUpStale(_ keys: [CacheKey]) async -> [CachedData?] { await lookUp(keys) }

    /// Nothing, for coordinators that keep nothing.
    @discardableResult
    public func store(_ entry: CachedData, for key: CacheKey) async -> Bool { false }

    /// Forgets what is there, and stores.
    @discardableResult
    public func replace(_ entry: CachedData, for key: CacheKey) async -> Bool {
        await discard(key)
        return await store(entry, for: key)
    }

    /// Nothing, for coordinators that remember nobody.
    public func abandon(_ flight: FlightWait) async {}

    /// Nothing, for coordinators that keep nothing.
    public func discard(_ key: CacheKey) async {}

    /// Nothing, for coordinators that nobody else deletes from.
    public func observeDeletions(_ handler: @escaping @Sendable (String?) -> Void) -> any Cancellable {
        NothingToCancel()
    }
}

extension FlightCoordinating {
    /// Keeps the answer of an origin that was asked in spite of what there may be.
    func keep(_ entry: CachedData, for key: CacheKey) async {
        // One with a checksum is the cache's own, confirmed by the origin: what is there is as good.
        if entry.checksum == nil { await replace(entry, for: key) } else { await store(entry, for: key) }
    }
}

/// What `begin` says of one key.
public enum FlightDecision: Sendable {
    case hit(CachedData)
    /// It is no longer fresh but may be served at once. A lead is to be carried out afterwards; without one somebody else
    /// does that already, or the origin failed a moment ago.
    case stale(CachedData, FlightLead?)
    /// Somebody else is making it.
    case wait(FlightWait)
    case lead(FlightLead)
    /// It failed a moment ago; asking the origin again so soon would help nobody.
    case failed(ImagePipeline.Error)
}

extension FlightDecision {
    /// The flight that is to be ended, if there is one.
    public var lead: FlightLead? {
        switch self {
        case .lead(let lead): lead
        case .stale(_, let lead): lead
        case .hit, .wait, .failed: nil
        }
    }
}

/// The right to make one entry. Two are the same if key and token are.
public struct FlightLead: Sendable, Hashable {
    public let key: CacheKey
    /// Grows with each flight of the key: a write with an older one is refused. Nil where nobody coordinates.
    public let token: Int?
    /// The entry that is to be replaced: its validators, and its bytes for a 304 or for an error.
    public let stale: CachedData?
    /// Of an original: whether an interrupted download has left its beginning where this coordinator's entries are, which is
    /// where it is looked for; nil where that is not known.
    public let hasPartial: Bool?
    /// Whether others may make the same entry beside this leader, as the last response must not be stored: there is no
    /// flight to end. The token decides between those whose response may be stored.
    package let isUnlocked: Bool

    public init(key: CacheKey, token: Int?, stale: CachedData? = nil, hasPartial: Bool? = nil) {
        self.key = key
        self.token = token
        self.stale = stale
        self.hasPartial = hasPartial
        isUnlocked = false
    }

    /// The right of many to make one entry.
    package init(unlocked key: CacheKey, token: Int?) {
        self.key = key
        self.token = token
        stale = nil
        hasPartial = nil
        isUnlocked = true
    }

    public static func == (one: FlightLead, other: FlightLead) -> Bool {
        one.key == other.key && one.token == other.token
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(key)
        hasher.combine(token)
    }
}

/// Somebody else's flight.
public struct FlightWait: Sendable, Hashable {
    public let key: CacheKey
    /// Seconds until the leader's lease ends unless it is renewed.
    public let remaining: Double
    /// What the coordinator knows the wait by.
    public let ticket: Int
    /// Of the flight that is waited for.
    public let token: Int?

    public init(key: CacheKey, remaining: Double, ticket: Int = 0, token: Int? = nil) {
        self.key = key
        self.remaining = remaining
        self.ticket = ticket
        self.token = token
    }
}

/// What has ended, or never began.
private struct NothingToCancel: Cancellable {
    func cancel() {}
}
