/// How hard one origin host may be asked by the whole cluster.
public struct HostLimits: Sendable, Equatable {
    /// Requests under way at a time, 1 or more.
    public var concurrency = 64
    /// Requests a second; nil sets no limit.
    public var rate: Double?
    /// Requests that may come at once after a quiet time, where there is a rate; no more than a second's worth in any case.
    public var burst = 8
    /// Failures in a row (no connection, no answer in time, 5xx) after which the host is broken off.
    public var breakAfter = 10
    /// How long it is broken off the first time; doubled each time a probe fails.
    public var breakTime: Duration = .seconds(5)
    /// The longest time between two probes.
    public var longestBreak: Duration = .seconds(300)

    public init() {}
}
