/// Permit for one request.
package struct FetchPermit: Sendable, Hashable {
    /// Name of the origin in the limiter.
    package let host: String
    /// Name of the permit in the limiter; nil if it is not counted.
    package let token: String?

    package init(host: String, token: String?) {
        self.host = host
        self.token = token
    }
}
