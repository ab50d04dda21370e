internal import Crypto
internal import Foundation

/// Values of the request headers that select one representation at a URL: the second part of a cache key (RFC 9111
/// section 4.1).
///
/// Values are stored as SHA-256 only: `Vary: Authorization` must not put a secret into a cache, and a long `User-Agent`
/// takes no space there.
package struct VaryKey: Hashable, Sendable {
    /// Header fields that `Vary` names.
    enum Names: Hashable, Sendable {
        case none
        /// Names in lower case.
        case fields(Set<String>)
        /// `*`, a malformed value, or too many names: no later request is known to match.
        case all
    }

    /// More names than this are treated as `*`.
    static let limit = 32

    /// Hex digest of the value of each named request header, by name in lower case; empty if the header was absent, so
    /// that only requests without it match.
    package let fields: [String: String]

    /// Key of the variant that a response represents; nil if the response does not vary, or varies by `*`.
    ///
    /// - Parameters:
    ///   - response: header fields, names in lower case.
    ///   - request: header fields as sent, names in any case.
    package init?(response: [String: String], request: [String: String]) {
        guard case .fields(let names) = Self.names(response) else { return nil }
        self.init(names, request: request)
    }

    /// - Parameter names: in lower case.
    package init(_ names: some Sequence<String>, request: [String: String]) {
        let sent = Self.joined(request)
        fields = Dictionary(
            names.map { ($0, sent[$0].map(Self.digest) ?? "") },
            uniquingKeysWith: { first, _ in first }
        )
    }

    /// - Parameter headers: of a response, names in lower case.
    static func names(_ headers: [String: String]) -> Names {
        let names = HTTPFieldList.elements(headers["vary"] ?? "")
        if names.isEmpty { return .none }
        guard names.count <= limit, !names.contains("*"), names.allSatisfy(HTTPFieldList.isToken) else { return .all }
        return .fields(Set(names.map { $0.lowercased() }))
    }

    /// Whether a response that was stored with these fields matches a request.
    ///
    /// - Parameters:
    ///   - fields: nil for a response that does not vary, as are all that were stored without fields.
    ///   - request: header fields to be sent, names in any case.
    package static func matches(_ fields: [String: String]?, request: [String: String]) -> Bool {
        guard let fields else { return true }
        return VaryKey(fields.keys, request: request).fields == fields
    }

    /// Normalized lines of the request headers that may select a representation: part of the primary key, so that each
    /// variant a caller can request has its own entry.
    ///
    /// - Parameter request: header fields of the caller, names in any case.
    package static func lines(_ request: [String: String]) -> [String] {
        joined(request).filter { !directives.contains($0.key) }.map { "\($0.key):\($0.value)" }.sorted()
    }

    /// Fields with directives for caches: requests with and without them share an entry. Ranges and conditions are not
    /// included, because their responses are for their caller only.
    private static let directives: Set<String> = ["cache-control", "pragma"]

    /// Whether a field of this name may contain a secret or identify the caller. The value of such a field remains part
    /// of an entry's key even if the response does not vary by it: if an origin forgets `Vary` and `private`, one
    /// caller's image must not be served to another.
    ///
    /// - Parameter name: in any case.
    package static func mayIdentify(_ name: String) -> Bool {
        let name = name.lowercased()
        if harmless.contains(name) { return false }
        return identifying.contains { name.contains($0) }
    }

    private static let harmless: Set<String> = ["idempotency-key", "sec-websocket-key", "user-agent"]
    /// Substrings of names.
    private static let identifying = [
        "account", "api", "auth", "bearer", "cert", "client", "cookie", "credential", "device", "forwarded", "identity",
        "jwt", "key", "login", "pass", "remote", "saml", "secret", "session", "sid", "sig", "tenant", "token", "user",
        "-ip",
    ]

    /// Joins the values of names that differ only in case.
    private static func joined(_ request: [String: String]) -> [String: String] {
        var joined: [String: String] = [:]
        for (name, value) in request.sorted(by: { $0.key < $1.key }) {
            let name = name.lowercased()
            joined[name] = joined[name].map { "\($0), \(value)" } ?? value
        }
        return joined
    }

    /// Digest of a value without the optional parts around commas (section 4.1). The order of a list is kept, because
    /// it may matter.
    private static func digest(_ value: String) -> String {
        let normalized = HTTPFieldList.elements(value).joined(separator: ",")
        return SHA256.hash(data: Data(normalized.utf8)).hexDigits
    }
}
