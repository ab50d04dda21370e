/// Timings and statistics of a load, for logs and metrics. They contain no credentials, not even within URLs.
///
/// Times are in seconds. Each phase is the sum over all hops; a reused connection needs no DNS, TCP and TLS.
public struct LoadTimings: Sendable, Hashable, Codable {
    /// DNS lookup, including the wait for a connection if the limits on connections are reached.
    public var nameLookup = 0.0
    /// TCP connect.
    public var connect = 0.0
    /// TLS handshake.
    public var tls = 0.0
    /// From the request to the first byte of the response.
    public var firstByte = 0.0
    /// From the first byte to the last one.
    public var transfer = 0.0
    /// From the start to the end, redirects included.
    public var total = 0.0
    /// Delivered bytes of the body.
    public var bytes = 0
    /// Status of the last response; nil if there was none.
    public var status: Int?
    /// HTTP version of the last hop: `1.0`, `1.1`, `2` or `3`.
    public var httpVersion: String?
    /// IP address of the last hop, also if it could not be reached.
    public var remoteAddress: String?
    /// IP addresses of the earlier hops that were not public (RFC 6890), with commas; nil if there were none.
    public var specialHop: String?
    /// Number of connections that were opened.
    public var connects = 0
    /// Number of redirects that were followed.
    public var redirects = 0
    /// Seconds for which all redirects that state a lifetime may be used without asking again: the shortest lifetime;
    /// nil if none states one.
    public var redirectLifetime: Double?
    /// URL of the last hop, without its query.
    public var effectiveURL: String?

    /// Creates timings of zero.
    public init() {}
}
