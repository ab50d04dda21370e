/// Sees to it that what several want is made once.
///
/// A flight is the making of one entry by one leader. It saves work and never decides correctness: a coordinator that
/// cannot reach its peers lets everybody lead.
public protocol FlightCoordinating: Sendable {
    /// Looks up all keys at once, and takes the lead of what is neither there nor being made.
    ///
    /// Every `.lead` must be ended by `finish` or `fail`.
    func begin(_ keys: [CacheKey]) async -> [FlightDecision]

    /// Returns when the flight has ended, or when it is worth looking again; never much later than the leader's lease.
    func wait(for flight: FlightWait) async

    /// Gives a wait up that `wait` was not called for.
    func abandon(_ flight: FlightWait) async

    /// Keeps the entries and ends their flights: data first, so that whoever is woken finds it.
    ///
    /// - Parameter entries: nil data ends the flight without keeping anything.
    func finish(_ entries: [(lead: FlightLead, entry: CachedData?)]) async

    /// Ends flights with an error that those who wait for them are told.
    func fail(_ leads: [FlightLead], error: ImagePipeline.Error) async
}

extension FlightCoordinating {
    /// Nothing, for coordinators that remember nobody.
    public func abandon(_ flight: FlightWait) async {}
}

/// What `begin` says of one key.
public enum FlightDecision: Sendable {
    case hit(CachedData)
    /// Somebody else is making it.
    case wait(FlightWait)
    case lead(FlightLead)
    /// It failed a moment ago; asking the origin again so soon would help nobody.
    case failed(ImagePipeline.Error)
}

/// The right to make one entry.
public struct FlightLead: Sendable, Hashable {
    public let key: CacheKey
    /// Grows with each flight of the key: a write with an older one is refused. Nil where nobody coordinates.
    public let token: Int?

    public init(key: CacheKey, token: Int?) {
        self.key = key
        self.token = token
    }
}

/// Somebody else's flight.
public struct FlightWait: Sendable, Hashable {
    public let key: CacheKey
    /// Seconds until the leader's lease ends unless it is renewed.
    public let remaining: Double
    /// What the coordinator knows the wait by.
    public let ticket: Int

    public init(key: CacheKey, remaining: Double, ticket: Int = 0) {
        self.key = key
        self.remaining = remaining
        self.ticket = ticket
    }
}
