internal import Foundation
package import FoundationNetworking

/// Unkeyed headers: request headers that can change the response but are not part of the cache key, e.g. a token added
/// in `willLoadData`. A response that depends on them must not be served to other callers.
///
/// With a `credentialScope`, headers that identify the caller are not unkeyed: the scope is part of the key and
/// determines which callers share the response.
package struct UnkeyedHeaders: Sendable, Equatable {
    /// Names of the unkeyed headers, in lower case.
    private let names: Set<String>
    /// Whether the request has `Authorization` (RFC 9111 section 3.5), keyed or not, and no `credentialScope`.
    package let isAuthorized: Bool
    /// Whether method, range or condition of the request differ from its key, because a delegate has changed them. The
    /// response is for this request only.
    package let isExclusive: Bool

    /// - Parameters:
    ///   - sent: the request as passed to the loader.
    ///   - known: the request as its cache key represents it.
    ///   - scope: the `credentialScope` of the request, if any.
    package init(sent: URLRequest, known: URLRequest, scope: String?) {
        let (fields, knownFields) = (Self.fields(sent), Self.fields(known))
        let all = Set(fields.keys).union(knownFields.keys)
        names = all.filter { fields[$0] != knownFields[$0] && !(scope != nil && Self.identities.contains($0)) }
        isAuthorized = scope == nil && fields["authorization"] != nil
        isExclusive =
            (sent.httpMethod ?? "GET") != (known.httpMethod ?? "GET")
            || URLRequest.exclusiveFields.contains { fields[$0] != knownFields[$0] }
    }

    /// Whether no unkeyed header selected the response. If `Vary` names such a header, the response must not be reused
    /// for other requests (RFC 9111 section 4.1), and its entry could not record which ones match.
    ///
    /// - Parameter headers: of the response, names in lower case.
    package func areIrrelevant(to headers: [String: String]) -> Bool {
        switch VaryKey.names(headers) {
        case .none: true
        case .fields(let varying): varying.isDisjoint(with: names)
        case .all: false
        }
    }

    /// Whether none of these fields, in lower case, is an unkeyed header.
    func areIrrelevant(toFields fields: (some Sequence<String>)?) -> Bool {
        fields.map { names.isDisjoint(with: $0) } ?? true
    }

    /// Headers that identify the caller.
    private static let identities: Set<String> = ["authorization", "cookie", "proxy-authorization"]

    private static func fields(_ request: URLRequest) -> [String: String] {
        Dictionary((request.allHTTPHeaderFields ?? [:]).map { ($0.key.lowercased(), $0.value) }) { "\($0), \($1)" }
    }
}
