/// Permit for one request.
public struct FetchPermit: Sendable, Hashable {
    /// Name of the origin in the limiter.
    public let host: String
    /// Name of the permit in the limiter; nil if it is not counted.
    public let token: String?

    public init(host: String, token: String?) {
        self.host = host
        self.token = token
    }
}
