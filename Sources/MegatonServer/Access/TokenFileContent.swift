internal import Foundation
internal import MegatonCore

/// The JSON of a file of tokens.
///
/// Its messages quote no value that may be a token in the wrong place: only words that are shorter than any token.
struct TokenFileContent: Decodable {
    let tokens: [Item]

    static let example = #"{"tokens": [{"token": "…", "scopes": ["read"]}]}"#

    private enum CodingKeys: String, CodingKey, CaseIterable {
        case tokens
    }

    init(from decoder: any Decoder) throws {
        let fields = try Self.fields(of: decoder, CodingKeys.self, example: Self.example)
        let path = decoder.codingPath + [CodingKeys.tokens]
        guard fields.contains(.tokens) else {
            throw FieldProblem.error(at: decoder.codingPath, "has no tokens; it must be like \(Self.example)")
        }
        do {
            tokens = try fields.decode([Item].self, forKey: .tokens)
        } catch {
            if (error as? DecodingError)?.fieldProblem != nil { throw error }
            throw FieldProblem.error(at: path, "is not a list of objects such as \(Item.example)")
        }
        if tokens.isEmpty {
            throw FieldProblem.error(at: path, "is empty; add an object such as \(Item.example)")
        }
        if tokens.count > TokenFile.maximumTokens {
            throw FieldProblem.error(at: path, "has \(tokens.count) tokens; allowed are \(TokenFile.maximumTokens)")
        }
    }

    /// A token with its scopes.
    struct Item: Decodable {
        let token: String
        let name: String?
        let scopes: Set<AccessScope>
        let expires: Date?

        static let example = #"{"token": "…", "scopes": ["read"]}"#

        private enum CodingKeys: String, CodingKey, CaseIterable {
            case token, name, scopes, expires
        }

        init(from decoder: any Decoder) throws {
            let fields = try TokenFileContent.fields(of: decoder, CodingKeys.self, example: Self.example)
            func problem(_ key: CodingKeys, _ text: String) -> DecodingError {
                FieldProblem.error(at: decoder.codingPath + [key], text)
            }
            func text(_ key: CodingKeys) throws -> String? {
                guard fields.contains(key), try !fields.decodeNil(forKey: key) else { return nil }
                guard let text = try? fields.decode(String.self, forKey: key) else {
                    throw problem(key, "is not a text")
                }
                return text
            }
            guard let token = try text(.token) else { throw problem(.token, "is missing") }
            if let fault = Self.fault(ofToken: token) { throw problem(.token, fault) }
            self.token = token
            name = try text(.name)
            if let name, !Self.isName(name) {
                throw problem(
                    .name,
                    "is not a valid name; allowed are \(TokenFile.nameSizes.lowerBound) to "
                        + "\(TokenFile.nameSizes.upperBound) letters, digits, dots, hyphens and underscores"
                )
            }
            if name == token { throw problem(.name, "is the token itself; names appear in logs") }
            guard fields.contains(.scopes) else {
                throw problem(.scopes, "is missing; allowed is a list of \(AccessScope.allowedWords)")
            }
            guard let words = try? fields.decode([String].self, forKey: .scopes), !words.isEmpty else {
                throw problem(.scopes, "is not a list of scopes; allowed are \(AccessScope.allowedWords)")
            }
            var scopes: Set<AccessScope> = []
            for (index, word) in words.enumerated() {
                guard let scope = AccessScope(word: word) else {
                    throw FieldProblem("scopes[\(index)]", Self.unknownScope(word)).error(at: decoder.codingPath)
                }
                scopes.insert(scope)
            }
            self.scopes = scopes
            guard let time = try text(.expires) else {
                expires = nil
                return
            }
            guard let date = RFC3339.date(time) else {
                let lacksZone = RFC3339.date(time + "Z") != nil
                throw problem(
                    .expires,
                    lacksZone
                        ? "has no zone, such as Z for UTC"
                        : #"is not a time; allowed are times such as "2027-01-31T08:00:00Z""#
                )
            }
            expires = date
        }

        /// The rest of a sentence about a token that cannot be used; nil for one that can.
        private static func fault(ofToken token: String) -> String? {
            let sizes = TokenFile.tokenSizes
            guard sizes.contains(token.utf8.count) else {
                return "has \(token.utf8.count) bytes; allowed are \(sizes.lowerBound) to \(sizes.upperBound), such as "
                    + "the output of openssl rand -hex 32"
            }
            if BearerCredential.isToken(token) { return nil }
            return "has characters that a header cannot carry; allowed are letters, digits and -._~+/, then any ="
        }

        private static func isName(_ name: String) -> Bool {
            TokenFile.nameSizes.contains(name.utf8.count) && name.utf8.allSatisfy(TokenFile.isWordByte)
        }

        private static func unknownScope(_ word: String) -> String {
            let shown = TokenFileContent.isShown(word) ? "is \(FieldProblem.quoted(word))" : "is no scope"
            let near = AccessScope.suggestion(for: word).map { "; did you mean \"\($0)\"?" } ?? ""
            return "\(shown); allowed are \(AccessScope.allowedWords)\(near)"
        }
    }

    /// The fields of an object, after a check that none of them is unknown.
    private static func fields<Keys: CodingKey & CaseIterable>(
        of decoder: any Decoder,
        _ keys: Keys.Type,
        example: String
    ) throws -> KeyedDecodingContainer<Keys> {
        guard let fields = try? decoder.container(keyedBy: keys),
            let names = try? decoder.container(keyedBy: AnyCodingKey.self).allKeys.map(\.stringValue)
        else {
            throw FieldProblem.error(at: decoder.codingPath, "is not an object such as \(example)")
        }
        let known = Keys.allCases.map(\.stringValue)
        guard let unknown = names.filter({ !known.contains($0) }).min() else { return fields }
        let problem =
            isShown(unknown)
            ? FieldProblem.unknownField(unknown, known: known)
            : "unknown field; known are \(known.sorted().joined(separator: ", "))"
        throw FieldProblem.error(at: decoder.codingPath, "has an \(problem)")
    }

    private static func isShown(_ word: String) -> Bool { word.utf8.count < TokenFile.tokenSizes.lowerBound }
}
