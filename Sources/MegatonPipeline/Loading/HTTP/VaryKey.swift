internal import Crypto
internal import Foundation

/// By what a request chose among the representations at one URL: the second part of the key of a cache (RFC 9111
/// section 4.1).
///
/// What the request sent is held as SHA-256 only: `Vary: Authorization` must not bring a secret into a cache, and a
/// long `User-Agent` takes no room there.
struct VaryKey: Hashable, Sendable {
    /// What `Vary` names.
    enum Names: Hashable, Sendable {
        case none
        /// In lower case.
        case fields(Set<String>)
        /// `*`, or more than anybody means: no later request can be known to match.
        case all
    }

    /// More names than this are treated as `*`.
    static let limit = 32

    /// Of each named field of the request, by its name in lower case: the hex digest of its value; empty where it was
    /// absent, as only a request without it matches then.
    let fields: [String: String]

    /// What the answer to a request is chosen by; nil where the answer does not vary, or by `*`.
    ///
    /// - Parameters:
    ///   - response: header fields, names in lower case.
    ///   - request: header fields as they were sent, names in any case.
    init?(response: [String: String], request: [String: String]) {
        guard case .fields(let names) = Self.names(response) else { return nil }
        self.init(names, request: request)
    }

    /// - Parameter names: in lower case.
    init(_ names: some Sequence<String>, request: [String: String]) {
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

    /// Whether an answer that was stored with these fields is one for this request.
    ///
    /// - Parameters:
    ///   - fields: nil for an answer that does not vary, as all of those are that were stored without them.
    ///   - request: header fields as they are to be sent, names in any case.
    static func matches(_ fields: [String: String]?, request: [String: String]) -> Bool {
        guard let fields else { return true }
        return VaryKey(fields.keys, request: request).fields == fields
    }

    /// The fields of a request that may choose a representation, as lines that are the same for the same ones: part of
    /// the primary key, so that each variant that a caller can ask for has its own entry.
    ///
    /// - Parameter request: header fields of the caller, names in any case.
    static func lines(_ request: [String: String]) -> [String] {
        joined(request).filter { !directives.contains($0.key) }.map { "\($0.key):\($0.value)" }.sorted()
    }

    /// Fields that say how caches are to be used: with one of these a request is about the same entry. Ranges and
    /// conditions are not among them, as their answers are for their caller only.
    private static let directives: Set<String> = ["cache-control", "pragma"]

    /// Whether a field of this name may hold a key, a name or an address of the caller. Its value stays in the key of an
    /// entry, also if the response does not vary by it: an origin that forgets `Vary` and `private` must not make one
    /// caller's image another's.
    ///
    /// - Parameter name: in any case.
    static func mayIdentify(_ name: String) -> Bool {
        let name = name.lowercased()
        if harmless.contains(name) { return false }
        return identifying.contains { name.contains($0) }
    }

    private static let harmless: Set<String> = ["idempotency-key", "sec-websocket-key", "user-agent"]
    /// Parts of names.
    private static let identifying = [
        "account", "api", "auth", "bearer", "cert", "client", "cookie", "credential", "device", "forwarded", "identity",
        "jwt", "key", "login", "pass", "remote", "saml", "secret", "session", "sid", "sig", "tenant", "token", "user",
        "-ip",
    ]

    /// The key of this variant of an entry.
    ///
    /// - Parameter generation: as of `CachedData.Metadata`; nil of entries that were stored without it.
    func key(beneath primary: CacheKey, generation: String? = nil) -> CacheKey {
        let sorted = fields.sorted { $0.key < $1.key }
        let last = generation.map { ["generation", $0] } ?? []
        return CacheKey(primary.kind, [primary.digest, "vary"] + sorted.flatMap { [$0.key, $0.value] } + last)
    }

    /// As one line each, where a name was given in two cases.
    private static func joined(_ request: [String: String]) -> [String: String] {
        var joined: [String: String] = [:]
        for (name, value) in request.sorted(by: { $0.key < $1.key }) {
            let name = name.lowercased()
            joined[name] = joined[name].map { "\($0), \(value)" } ?? value
        }
        return joined
    }

    /// Without what may be added or left out around commas (section 4.1). The order of a list is left: it may mean
    /// something.
    private static func digest(_ value: String) -> String {
        let normalized = HTTPFieldList.elements(value).joined(separator: ",")
        return SHA256.hash(data: Data(normalized.utf8)).hexDigits
    }
}
