/// What a load cost and where it went: for logs and metrics. Without credentials, also those within URLs.
///
/// Seconds. Each phase is the sum over the hops; a connection that was kept alive costs no lookup, connect and TLS.
public struct LoadTimings: Sendable, Hashable, Codable {
    /// DNS, with the wait for a place where the limits on connections are reached.
    public var nameLookup = 0.0
    /// TCP.
    public var connect = 0.0
    /// The TLS handshake.
    public var tls = 0.0
    /// From the request to the first byte of the answer.
    public var firstByte = 0.0
    /// From the first byte to the last one.
    public var transfer = 0.0
    /// From the start to the end, redirects included.
    public var total = 0.0
    /// Bytes of the body that were handed over.
    public var bytes = 0
    /// The last answer's; nil where there was none.
    public var status: Int?
    /// `1.0`, `1.1`, `2` or `3`: the last hop's.
    public var httpVersion: String?
    /// Of the last hop.
    public var remoteAddress: String?
    /// Connections that were made for it.
    public var connects = 0
    public var redirects = 0
    /// What the last hop asked for, without its query.
    public var effectiveURL: String?

    public init() {}
}
