internal import Foundation
internal import FoundationNetworking

extension ImageError.Reuse {
    /// Directives that state how long a response may be reused, or that it must not be.
    private static let directives = ["no-store", "private", "no-cache", "s-maxage", "max-age"]

    /// - Parameter headers: of the response, with lower-case names.
    /// - Returns: nil if they do not limit the reuse.
    init?(headers: [String: String]) {
        let control = CacheControl(headers["cache-control"])
        let names = VaryKey.names(headers)
        let isStated = headers["expires"] != nil || Self.directives.contains(where: control.contains) || names == .all
        guard isStated || names != .none else { return nil }
        // The rules are those of a successful response; each class of failure has its own limit besides.
        self.init(
            lifetime: isStated ? HTTPFreshness(headers: headers).lifetime ?? 0 : nil,
            vary: VaryKey(response: headers, request: [:])?.fields
        )
    }
}

extension ImageError {
    /// The same failure with the values that its request sent in the fields that selected the response.
    ///
    /// - Parameter unkeyed: unkeyed header fields of the request.
    package func asked(with fields: [String: String], _ unkeyed: UnkeyedHeaders? = nil) -> Self {
        var error = self
        if let varying = reuse?.vary { error.reuse?.vary = VaryKey(varying.keys, request: fields).fields }
        if let unkeyed, status != nil,
            unkeyed.isAuthorized || unkeyed.isExclusive || !unkeyed.areIrrelevant(toFields: reuse?.vary?.keys)
        {
            // The response may be meant for that requester alone.
            error.reuse = Reuse(lifetime: 0)
        }
        return error
    }

    /// Whether it can answer a request that sends these header fields (RFC 9111 section 4.1).
    package func matches(request fields: [String: String]) -> Bool { VaryKey.matches(reuse?.vary, request: fields) }
}
