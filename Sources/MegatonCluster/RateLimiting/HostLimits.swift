/// Limits of the requests that the whole cluster sends to one origin host.
public struct HostLimits: Sendable, Equatable {
    /// Maximum number of concurrent requests, 1 or more.
    public var concurrency = 64
    /// Maximum number of requests per second; nil sets no limit.
    public var rate: Double?
    /// Number of requests that may be sent at once after an idle time, if there is a rate; at most one second's worth.
    public var burst = 8
    /// Consecutive failures (no connection, no response in time, 5xx) that open the circuit breaker of the host.
    public var failureThreshold = 10
    /// Time for which the circuit stays open at first; doubled each time a probe fails.
    public var openInterval: Duration = .seconds(5)
    /// Maximum time between two probes.
    public var maximumOpenInterval: Duration = .seconds(300)

    public init() {}
}
