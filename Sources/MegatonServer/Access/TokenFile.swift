internal import Foundation
internal import MegatonCluster
internal import MegatonCore

/// The file of tokens that a server accepts.
///
/// ```json
/// {"tokens": [
///   {"token": "…", "scopes": ["read", "submit"]},
///   {"name": "deploy", "token": "…", "scopes": ["admin"], "expires": "2027-01-31T08:00:00Z"}
/// ]}
/// ```
///
/// Only the user of the server may be able to read or change it (mode 600 or 400): others could use the tokens, or add
/// one. A credential of systemd may be readable by its group.
package struct TokenFile: Sendable {
    /// The tokens, in the order of the file; expired ones too.
    package let entries: [AccessTokens.Entry]

    /// A fault of the file, as a sentence that begins with its path; never with a token in it.
    package struct Problem: Error, Sendable, Equatable, CustomStringConvertible {
        package let description: String
    }

    /// Reads the file. Blocks the thread meanwhile.
    ///
    /// - Parameter credentials: directory of systemd's credentials (`$CREDENTIALS_DIRECTORY`), if there is one.
    package init(_ path: String, credentials: String? = nil) throws(Problem) {
        let file: SecretFile
        do {
            file = try SecretFile(path, credentials: credentials)
        } catch {
            throw Self.problem(path, error.text)
        }
        guard file.permissions & ~(S_IRUSR | S_IWUSR) == 0 else {
            let mode = String(file.permissions, radix: 8)
            throw Self.problem(
                path,
                "has the mode \(mode); only its owner may be able to read and write it. Run chmod 600 \(Self.word(path))"
            )
        }
        do {
            entries = try Self.entries(file.content)
        } catch {
            throw Self.problem(path, error.path.isEmpty ? error.problem : "is invalid: \(error)")
        }
    }

    private static func problem(_ path: String, _ text: String) -> Problem {
        Problem(description: FieldProblem.sentence("\(path) \(text)"))
    }

    /// A path as one word of a shell.
    private static func word(_ path: String) -> String {
        let plain = path.utf8.allSatisfy { isWordByte($0) || $0 == UInt8(ascii: "/") }
        return plain ? path : "'\(path.replacingOccurrences(of: "'", with: #"'\''"#))'"
    }

    // MARK: - Content

    static let tokenSizes = 16...1024
    static let maximumTokens = 1_000
    static let nameSizes = 1...64

    /// The tokens of the JSON above.
    ///
    /// - Throws: the first fault, with the path of its field.
    static func entries(_ json: Data) throws(FieldProblem) -> [AccessTokens.Entry] {
        let content: TokenFileContent
        do {
            content = try JSONDecoder().decode(TokenFileContent.self, from: json)
        } catch {
            // Foundation's message may quote the input, and with it a token.
            throw (error as? DecodingError)?.fieldProblem
                ?? FieldProblem("", "is not valid JSON; it must be like \(TokenFileContent.example)")
        }
        var entries: [AccessTokens.Entry] = []
        var places: [String: Int] = [:]
        for (index, item) in content.tokens.enumerated() {
            if let first = places.updateValue(index, forKey: item.token) {
                throw FieldProblem("tokens[\(index)].token", "is the same as that of tokens[\(first)]")
            }
            // Names of the file have no spaces: this one is none of them.
            let identity = AccessIdentity(
                name: item.name ?? "token \(index + 1)",
                scopes: item.scopes,
                owner: AccessTokens.owner(name: item.name, token: item.token)
            )
            entries.append(AccessTokens.Entry(token: item.token, identity: identity, expires: item.expires))
        }
        return entries
    }

    /// Letters, digits, dots, hyphens and underscores.
    static func isWordByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
