/// Leave to make one request.
public struct OriginPass: Sendable, Hashable {
    /// What the gate knows the origin by.
    public let host: String
    /// What the gate knows the pass by; nil where nobody counts it.
    public let token: String?

    public init(host: String, token: String?) {
        self.host = host
        self.token = token
    }
}
