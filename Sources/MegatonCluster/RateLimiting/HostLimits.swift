/// Limits of the requests that the whole cluster sends to one origin host.
public struct HostLimits: Sendable, Equatable {
    /// Maximum number of concurrent requests, 1 or more.
    public var concurrency = 64
    /// Maximum number of concurrent requests to a host before its first bytes, 1 or more. Before its first answer, as
    /// many failures open its circuit breaker, if these are fewer than `failureThreshold`.
    public var firstConcurrency = 4
    /// Maximum number of requests per second; nil sets no limit.
    public var rate: Double?
    /// Number of requests that may be sent at once after an idle time, beside the one that is due, if there is a rate;
    /// at most one second's worth.
    public var burst = 8
    /// Consecutive failures (no connection, no response in time, 5xx) that open the circuit breaker of the host.
    public var failureThreshold = 10
    /// Time for which the circuit stays open at first; doubled each time a probe fails.
    public var openInterval: Duration = .seconds(5)
    /// Time after the circuit opened from which the jobs of the host fail instead of waiting for it, or trying again.
    /// A sixth of it holds for a host that has never answered, from the first failure on, or without a byte from the
    /// beginning of the request that opened the circuit: lists from the web have many that are gone for good, and few
    /// that are about to come back.
    public var patience: Duration = .seconds(60)
    /// Maximum time between two probes.
    public var maximumOpenInterval: Duration = .seconds(300)

    /// Creates the default limits.
    public init() {}

    func failureThreshold(ofHostThatAnswered hasAnswered: Bool) -> Int {
        hasAnswered ? failureThreshold : min(failureThreshold, max(1, firstConcurrency))
    }

    func patience(ofHostThatAnswered hasAnswered: Bool) -> Duration { hasAnswered ? patience : patience / 6 }
}
