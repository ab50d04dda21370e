import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonServer

/// The file of tokens: its permissions, its content, and the message of each fault.
@Suite struct TokenFileTests {
    private static let token = "0123456789abcdef"
    private static let valid = #"{"tokens": [{"token": "0123456789abcdef", "scopes": ["read"]}]}"#
    private static let file = #"{"tokens": [{"token": "…", "scopes": ["read"]}]}"#
    private static let item = #"{"token": "…", "scopes": ["read"]}"#

    private let directory: TestDirectory

    init() throws { directory = try TestDirectory() }

    private func write(_ text: String, to name: String = "tokens.json", mode: mode_t = 0o600) throws -> String {
        let path = try directory.write(Data(text.utf8), to: name)
        try #require(chmod(path, mode) == 0)
        return path
    }

    /// The message about the file, without its path.
    private func fault(of path: String) throws -> String {
        let problem = #expect(throws: TokenFile.Problem.self) { try TokenFile(path) }
        let text = try #require(problem?.description)
        #expect(text.hasPrefix(path + " "))
        return String(text.dropFirst(path.count + 1))
    }

    // MARK: - The file

    @Test(arguments: [0o600, 0o400] as [mode_t]) func theOwnerAloneMayReadTheFile(_ mode: mode_t) throws {
        #expect(try TokenFile(write(Self.valid, mode: mode)).entries.count == 1)
    }

    @Test(arguments: [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o700, 0o644] as [mode_t])
    func otherPermissionsAreRefused(_ mode: mode_t) throws {
        let path = try write(Self.valid, mode: mode)
        let rule = "only its owner may be able to read and write it. Run chmod 600 \(path)."
        #expect(try fault(of: path) == "has the mode \(String(mode, radix: 8)); \(rule)")
        try #require(chmod(path, 0o600) == 0)
        #expect(try TokenFile(path).entries.count == 1, "the command of the message repairs it")
    }

    @Test func theCommandQuotesThePath() throws {
        let path = try write(Self.valid, to: "it's $HOME.json", mode: 0o644)
        let quoted = #"'\#(directory.path)/it'\''s $HOME.json'"#
        #expect(try fault(of: path).hasSuffix("Run chmod 600 \(quoted)."))
    }

    @Test func theGroupMayReadACredentialOfSystemd() throws {
        let path = try write(Self.valid, to: "run/tokens.json", mode: 0o440)
        #expect(try TokenFile(path, credentials: directory.path + "/run").entries.count == 1)
        #expect(throws: TokenFile.Problem.self) { try TokenFile(path, credentials: directory.path + "/other") }
        try #require(chmod(path, 0o460) == 0)
        #expect(throws: TokenFile.Problem.self) { try TokenFile(path, credentials: directory.path + "/run") }
    }

    @Test func aMissingFileIsNamed() throws {
        #expect(try fault(of: directory.path + "/none") == "cannot be read: No such file or directory.")
    }

    @Test func theSizeIsLimited() throws {
        let size = 1024 * 1024
        let largest = Self.valid + String(repeating: " ", count: size - Self.valid.utf8.count)
        #expect(try TokenFile(write(largest)).entries.count == 1)
        #expect(try fault(of: write(largest + " ")) == "is larger than \(size) bytes.")
    }

    // MARK: - The content

    @Test func theFieldsAreRead() throws {
        let path = try write(
            """
            {"tokens": [
              {"token": "0123456789abcdef", "scopes": ["read", "submit", "read"]},
              {"name": "deploy.1", "token": "AAZZaazz0099-._~+/===", "scopes": ["admin"], "expires": null},
              {"name": null, "token": "fedcba9876543210", "scopes": ["submit"],
               "expires": "2027-01-31T09:00:00+01:00"}
            ]}
            """
        )
        let entries = try TokenFile(path).entries
        #expect(entries.map(\.identity.name) == ["token 1", "deploy.1", "token 3"])
        #expect(entries.map(\.identity.scopes) == [[.read, .submit], [.admin], [.submit]])
        #expect(entries.map(\.expires) == [nil, nil, Date(timeIntervalSince1970: 1_801_382_400)])
        let tokens = AccessTokens(entries)
        let names = [Self.token, "AAZZaazz0099-._~+/===", "fedcba9876543210"].map {
            tokens.identity(of: $0, at: Date(timeIntervalSince1970: 1_801_382_399))?.name
        }
        #expect(names == ["token 1", "deploy.1", "token 3"])
    }

    /// Contents, and the message without its path and full stop.
    private static let wholes: [(String, String)] = [
        ("", "is not valid JSON; it must be like \(file)"), ("{", "is not valid JSON; it must be like \(file)"),
        (valid + "x", "is not valid JSON; it must be like \(file)"),
        ("[]", "is not an object such as \(file)"), ("\"\(token)\"", "is not an object such as \(file)"),
        ("{}", "has no tokens; it must be like \(file)"),
        (#"{"tokens": []}"#, "is invalid: tokens is empty; add an object such as \(item)"),
        (#"{"tokens": {}}"#, "is invalid: tokens is not a list of objects such as \(item)"),
        (#"{"tokens": null}"#, "is invalid: tokens is not a list of objects such as \(item)"),
        (#"{"tokens": ["0123456789abcdef"]}"#, "is invalid: tokens[0] is not an object such as \(item)"),
        (#"{"0123456789abcdef": ["read"]}"#, "has an unknown field; known are tokens"),
    ]

    @Test(arguments: wholes) func faultsOfTheWholeAreNamed(_ json: String, _ message: String) throws {
        #expect(try fault(of: write(json)) == message + ".")
    }

    @Test func aMisspelledFieldIsRecognized() throws {
        let message = #"has an unknown field "token"; known are tokens; did you mean "tokens"?"#
        #expect(try fault(of: write(#"{"token": []}"#)) == message)
    }

    private static let times = #"allowed are times such as "2027-01-31T08:00:00Z""#
    private static let bytes = "bytes; allowed are 16 to 1024, such as the output of openssl rand -hex 32"
    private static let characters =
        "has characters that a header cannot carry; allowed are letters, digits and -._~+/, then any ="
    private static let names = "is not a valid name; allowed are 1 to 64 letters, digits, dots, hyphens and underscores"

    /// Fields of the second token, and the message about them.
    private static let items: [(String, String)] = [
        (#""scopes": ["read"]"#, ".token is missing"),
        (#""token": null, "scopes": ["read"]"#, ".token is missing"),
        (#""token": 1234567890123456, "scopes": ["read"]"#, ".token is not a text"),
        (#""token": "", "scopes": ["read"]"#, ".token has 0 \(bytes)"),
        (#""token": "0123456789abcde", "scopes": ["read"]"#, ".token has 15 \(bytes)"),
        (#""token": "\#(String(repeating: "a", count: 1025))", "scopes": ["read"]"#, ".token has 1025 \(bytes)"),
        (#""token": "0123456789 abcdef", "scopes": ["read"]"#, ".token \(characters)"),
        (#""token": "0123456789äbcdef", "scopes": ["read"]"#, ".token \(characters)"),
        (#""token": "0123456789abcde\n", "scopes": ["read"]"#, ".token \(characters)"),
        (#""token": "=0123456789abcdef", "scopes": ["read"]"#, ".token \(characters)"),
        (#""token": "0123456789abcdef", "scopes": ["admin"]"#, ".token is the same as that of tokens[0]"),
        (
            #""token": "0123456789abcdeF""#, ".scopes is missing; allowed is a list of read, submit, admin"
        ),
        (
            #""token": "0123456789abcdeF", "scopes": []"#,
            ".scopes is not a list of scopes; allowed are read, submit, admin"
        ),
        (
            #""token": "0123456789abcdeF", "scopes": "read""#,
            ".scopes is not a list of scopes; allowed are read, submit, admin"
        ),
        (
            #""token": "0123456789abcdeF", "scopes": ["read", "write"]"#,
            #".scopes[1] is "write"; allowed are read, submit, admin"#
        ),
        (
            #""token": "0123456789abcdeF", "scopes": ["0123456789abcdeF"]"#,
            ".scopes[0] is no scope; allowed are read, submit, admin"
        ),
        (#""token": "0123456789abcdeF", "scopes": ["read"], "name": "a b""#, ".name \(names)"),
        (#""token": "0123456789abcdeF", "scopes": ["read"], "name": """#, ".name \(names)"),
        (#""token": "0123456789abcdeF", "scopes": ["read"], "name": 7"#, ".name is not a text"),
        (
            #""token": "0123456789abcdeF", "scopes": ["read"], "name": "0123456789abcdeF""#,
            ".name is the token itself; names appear in logs"
        ),
        (#""token": "0123456789abcdeF", "scopes": ["read"], "expires": 1800000000"#, ".expires is not a text"),
        (
            #""token": "0123456789abcdeF", "scopes": ["read"], "expires": "2027-02-30T08:00:00Z""#,
            ".expires is not a time; \(times)"
        ),
        (
            #""token": "0123456789abcdeF", "scopes": ["read"], "expires": "2027-01-31""#,
            ".expires is not a time; \(times)"
        ),
        (
            #""token": "0123456789abcdeF", "scopes": ["read"], "expires": "2027-01-31T08:00:00""#,
            ".expires has no zone, such as Z for UTC"
        ),
        (
            #""0123456789abcdeF": ["read"]"#, " has an unknown field; known are expires, name, scopes, token"
        ),
    ]

    /// No message has a token in it, not even one in the place of something else.
    @Test(arguments: items) func faultsOfATokenAreNamed(_ fields: String, _ message: String) throws {
        let json = #"{"tokens": [{"token": "0123456789abcdef", "scopes": ["read"]}, {\#(fields)}]}"#
        let fault = try self.fault(of: write(json))
        #expect(fault == "is invalid: tokens[1]\(message).")
        #expect(!fault.contains("0123456789"))
    }

    /// Misspelled words, for which the message has a suggestion.
    @Test(arguments: [
        (
            #""scopes": ["reed"]"#,
            #"tokens[0].scopes[0] is "reed"; allowed are read, submit, admin; did you mean "read"?"#
        ),
        (
            #""scope": ["read"]"#,
            #"tokens[0] has an unknown field "scope"; known are expires, name, scopes, token; did you mean "scopes"?"#
        ),
    ])
    func misspelledWordsAreRecognized(_ field: String, _ message: String) throws {
        let path = try write(#"{"tokens": [{"token": "0123456789abcdef", \#(field)}]}"#)
        #expect(try fault(of: path) == "is invalid: \(message)")
    }

    @Test func theNumberOfTokensIsLimited() throws {
        func json(_ count: Int) -> String {
            let items = (0..<count).map { #"{"token": "0123456789abcdef-\#($0)", "scopes": ["read"]}"# }
            return #"{"tokens": [\#(items.joined(separator: ","))]}"#
        }
        #expect(try TokenFile(write(json(1_000))).entries.count == 1_000)
        #expect(try fault(of: write(json(1_001))) == "is invalid: tokens has 1001 tokens; allowed are 1000.")
    }
}
