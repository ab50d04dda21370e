internal import Foundation
internal import FoundationNetworking

/// What a request showed the origin, and its key in the caches does not tell: the header fields that a delegate set in
/// `willLoadData`. Whoever asks next would be handed what they have opened.
///
/// Of a request with a `credentialScope` it is not hidden who asks: the scope is in the key, and says who may share the
/// answer.
struct HiddenFields: Sendable, Equatable {
    /// In lower case.
    private let names: Set<String>
    /// Whether the request told who asks (RFC 9111 section 3.5), be it by a hidden field or not.
    let isAuthorized: Bool
    /// Whether it asked for something else than the key says: by another method, or for a part or on a condition that a
    /// delegate has added. The answer is for this request alone.
    let isExclusive: Bool

    /// - Parameters:
    ///   - sent: as it went to the loader.
    ///   - known: as the key knows it.
    init(sent: URLRequest, known: URLRequest, scope: String?) {
        let (fields, knownFields) = (Self.fields(sent), Self.fields(known))
        let all = Set(fields.keys).union(knownFields.keys)
        names = all.filter { fields[$0] != knownFields[$0] && !(scope != nil && Self.identities.contains($0)) }
        isAuthorized = scope == nil && fields["authorization"] != nil
        isExclusive =
            (sent.httpMethod ?? "GET") != (known.httpMethod ?? "GET")
            || URLRequest.exclusiveFields.contains { fields[$0] != knownFields[$0] }
    }

    /// Whether the answer was chosen by what the key knows. One that `Vary` says was chosen by a hidden field is not for
    /// whoever asks next (RFC 9111 section 4.1), and nothing that is stored could tell for whom it is.
    ///
    /// - Parameter headers: of the answer, names in lower case.
    func areIrrelevant(to headers: [String: String]) -> Bool {
        switch VaryKey.names(headers) {
        case .none: true
        case .fields(let varying): varying.isDisjoint(with: names)
        case .all: false
        }
    }

    /// Whether none of these fields, in lower case, was hidden.
    func areIrrelevant(toFields fields: (some Sequence<String>)?) -> Bool {
        fields.map { names.isDisjoint(with: $0) } ?? true
    }

    /// What tells who asks.
    private static let identities: Set<String> = ["authorization", "cookie", "proxy-authorization"]

    private static func fields(_ request: URLRequest) -> [String: String] {
        Dictionary((request.allHTTPHeaderFields ?? [:]).map { ($0.key.lowercased(), $0.value) }) { "\($0), \($1)" }
    }
}
