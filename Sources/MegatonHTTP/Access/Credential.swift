internal import Foundation

/// A secret that authorizes requests, and the sources it may be sent to.
public struct Credential: Sendable, Hashable, CustomStringConvertible {
    /// How the secret is sent.
    public enum Method: Sendable, Hashable {
        /// `Authorization: Basic` (RFC 7617).
        case basic(user: String, password: Secret)
        /// `Authorization: Bearer` (RFC 6750).
        case bearer(Secret)
        /// Header fields that the origin defines.
        case headerFields([String: Secret])
        /// AWS Signature Version 4, for `s3:`.
        case s3(keyID: String, secret: Secret, sessionToken: Secret?)
    }

    /// Name by which requests ask for the credential; nil for a credential of all requests that name none.
    public let name: String?
    /// Sources it may be sent to. A rule without a scheme means https only, because http can be read in transit.
    public let sources: [SourceRule]
    /// How requests are authenticated.
    public let method: Method

    /// Creates a credential for sources.
    public init(name: String? = nil, sources: [SourceRule], method: Method) {
        self.name = name
        self.sources = sources
        self.method = method
    }

    /// Kind and sources of the credential, without its secret.
    public var description: String {
        let kind =
            switch method {
            case .basic: "basic"
            case .bearer: "bearer"
            case .headerFields(let fields): fields.keys.sorted().joined(separator: ", ")
            case .s3: "s3"
            }
        let places = sources.map(\.description).joined(separator: ", ")
        return "\(name.map { "\($0): " } ?? "")\(kind) for \(places)"
    }

    func isFor(_ parts: URLParts) -> Bool {
        sources.contains { rule in
            rule.matches(parts) && (rule.scheme != nil || parts.scheme == "https")
        }
    }

    /// Header fields for a request to one of its sources; none for `s3`, whose signature covers the whole request.
    var headerFields: [String: String] {
        switch method {
        case .basic(let user, let password):
            let pair = Data("\(user):\(password.value)".utf8).base64EncodedString()
            return ["Authorization": "Basic \(pair)"]
        case .bearer(let token): return ["Authorization": "Bearer \(token.value)"]
        case .headerFields(let fields): return fields.mapValues(\.value)
        case .s3: return [:]
        }
    }
}

extension Credential: Decodable {
    private enum CodingKeys: String, CodingKey, CaseIterable {
        case name, sources, basic, bearer, headers, s3
    }

    private struct Basic: Decodable {
        let user: String
        let password: Secret

        private enum CodingKeys: String, CodingKey, CaseIterable {
            case user, password
        }

        init(from decoder: any Decoder) throws {
            try decoder.refuseUnknownFields(except: CodingKeys.self)
            let fields = try decoder.container(keyedBy: CodingKeys.self)
            user = try fields.decode(String.self, forKey: .user)
            password = try fields.decode(Secret.self, forKey: .password)
        }
    }

    private struct Key: Decodable {
        let id: String
        let secret: Secret
        let token: Secret?

        private enum CodingKeys: String, CodingKey, CaseIterable {
            case id, secret, token
        }

        init(from decoder: any Decoder) throws {
            try decoder.refuseUnknownFields(except: CodingKeys.self)
            let fields = try decoder.container(keyedBy: CodingKeys.self)
            id = try fields.decode(String.self, forKey: .id)
            secret = try fields.decode(Secret.self, forKey: .secret)
            token = try fields.decodeIfPresent(Secret.self, forKey: .token)
        }
    }

    /// Reads the JSON form. Unknown fields are refused: without its misspelled `name`, a secret would go out with
    /// every request to its sources.
    public init(from decoder: any Decoder) throws {
        try decoder.refuseUnknownFields(except: CodingKeys.self)
        let fields = try decoder.container(keyedBy: CodingKeys.self)
        name = try fields.decodeIfPresent(String.self, forKey: .name)
        sources = try fields.decode([String].self, forKey: .sources).map { try SourceRule($0) }
        var methods: [Method] = []
        if let basic = try fields.decodeIfPresent(Basic.self, forKey: .basic) {
            methods.append(.basic(user: basic.user, password: basic.password))
        }
        if let token = try fields.decodeIfPresent(Secret.self, forKey: .bearer) { methods.append(.bearer(token)) }
        if let named = try fields.decodeIfPresent([String: Secret].self, forKey: .headers) {
            methods.append(.headerFields(named))
        }
        if let key = try fields.decodeIfPresent(Key.self, forKey: .s3) {
            methods.append(.s3(keyID: key.id, secret: key.secret, sessionToken: key.token))
        }
        guard name.map(Self.isName) ?? true else {
            throw FieldProblem.error(
                at: decoder.codingPath + [CodingKeys.name],
                "is not a valid name; allowed are 1 to 128 letters, digits, dots, colons, hyphens and underscores, "
                    + #"except "." and "..""#
            )
        }
        guard !sources.isEmpty else {
            throw FieldProblem.error(
                at: decoder.codingPath + [CodingKeys.sources],
                "is empty; it needs at least one rule, such as \"cdn.example.com\""
            )
        }
        guard methods.count == 1 else {
            let count = methods.isEmpty ? "no secret" : "more than one secret"
            throw FieldProblem.error(
                at: decoder.codingPath,
                "has \(count); it needs exactly one of basic, bearer, headers and s3"
            )
        }
        method = methods[0]
    }

    /// Whether a job can ask for a credential of this name.
    private static func isName(_ name: String) -> Bool {
        (1...128).contains(name.utf8.count) && name != "." && name != ".."
            && name.utf8.allSatisfy { byte in
                switch byte {
                case 45, 46, 48...58, 65...90, 95, 97...122: true
                default: false
                }
            }
    }
}

/// A text that appears in no description, dump or log; only `value` returns it.
public struct Secret: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The secret text.
    public let value: String

    /// Wraps a value, so that it is never printed.
    public init(_ value: String) { self.value = value }

    public var description: String { "<secret>" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension Secret: Decodable {
    public init(from decoder: any Decoder) throws {
        self.init(try decoder.singleValueContainer().decode(String.self))
    }
}
