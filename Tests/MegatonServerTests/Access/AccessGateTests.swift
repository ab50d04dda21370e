import Foundation
import MegatonCore
import Testing

@testable import MegatonServer

/// The decision about a request, by its token and scopes.
@Suite struct AccessGateTests {
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)

    private static func token(_ name: String) -> String { "\(name)-0123456789abcdef" }

    private static func entry(_ name: String, _ scopes: Set<AccessScope>, expires: Date? = nil) -> AccessTokens.Entry {
        let identity = AccessIdentity(name: name, scopes: scopes)
        return AccessTokens.Entry(token: token(name), identity: identity, expires: expires)
    }

    private static func question(_ name: String, from address: String? = nil) -> AccessGate.Question {
        AccessGate.Question(authorization: ["Bearer \(token(name))"], client: AttemptLimit.Client(address))
    }

    /// The scopes of a token, and those that it may use.
    private static let scopes: [(Set<AccessScope>, Set<AccessScope>)] = [
        ([.read], [.read]), ([.submit], [.submit]), ([.read, .submit], [.read, .submit]),
        ([.admin], [.read, .submit, .admin]), ([.read, .admin], [.read, .submit, .admin]),
    ]

    @Test(arguments: scopes) func scopesAreChecked(_ scopes: Set<AccessScope>, _ allowed: Set<AccessScope>) throws {
        let gate = AccessGate(AccessTokens([Self.entry("a", scopes)]))
        for scope in AccessScope.allCases {
            if allowed.contains(scope) {
                #expect(try gate.identity(Self.question("a"), needs: scope).name == "a")
            } else {
                #expect(throws: AccessGate.Refusal.insufficientScope(of: "a", lacks: scope)) {
                    try gate.identity(Self.question("a"), needs: scope)
                }
            }
        }
    }

    /// For parts that need no scope, such as the answer that there is no such path.
    @Test func withoutAScopeEveryValidTokenWillDo() throws {
        let gate = AccessGate(AccessTokens([Self.entry("a", [.submit])]))
        #expect(try gate.identity(Self.question("a"), needs: nil).name == "a")
        #expect(throws: AccessGate.Refusal.invalidToken) { try gate.identity(Self.question("b"), needs: nil) }
        #expect(throws: AccessGate.Refusal.noToken) { try gate.identity(AccessGate.Question(), needs: nil) }
    }

    @Test func aTokenIsValidUntilItExpires() throws {
        let tokens = AccessTokens([Self.entry("a", [.read], expires: Self.now)])
        let before = Self.now.addingTimeInterval(-0.001)
        #expect(tokens.identity(of: Self.token("a"), at: before)?.name == "a")
        for date in [Self.now, Self.now.addingTimeInterval(0.001)] {
            #expect(tokens.identity(of: Self.token("a"), at: date) == nil)
        }
        #expect(try AccessGate(tokens, date: { before }).identity(Self.question("a"), needs: .read).name == "a")
        #expect(throws: AccessGate.Refusal.invalidToken) {
            try AccessGate(tokens, date: { Self.now }).identity(Self.question("a"), needs: .read)
        }
    }

    @Test func eachTokenHasItsHolder() {
        let names = (0..<50).map { "name\($0)" }
        let tokens = AccessTokens(names.map { Self.entry($0, [.read]) })
        for name in names { #expect(tokens.identity(of: Self.token(name), at: Self.now)?.name == name) }
        for text in ["", Self.token("name50"), Self.token("name1") + "0", String(Self.token("name1").dropLast())] {
            #expect(tokens.identity(of: text, at: Self.now) == nil)
        }
    }

    @Test func tokensCanBeReplaced() {
        let tokens = AccessTokens([Self.entry("old", [.read])])
        tokens.replace(with: [Self.entry("old", [.read]), Self.entry("new", [.read])])
        #expect(tokens.identity(of: Self.token("old"), at: Self.now) != nil)
        #expect(tokens.identity(of: Self.token("new"), at: Self.now) != nil)
        tokens.replace(with: [Self.entry("new", [.read])])
        #expect(tokens.identity(of: Self.token("old"), at: Self.now) == nil)
        tokens.replace(with: [])
        #expect(tokens.identity(of: Self.token("new"), at: Self.now) == nil)
    }

    @Test func aDumpShowsNoToken() {
        var text = ""
        dump(Self.entry("a", [.read]), to: &text)
        #expect(text.contains("read") && !text.contains(Self.token("a")))
    }

    /// Ten wrong tokens: then the right one is not looked at, from this client only.
    @Test func failedAttemptsAreLimited() throws {
        let clock = SteppedClock()
        let limit = AttemptLimit(time: TimeSource(clock))
        let gate = AccessGate(AccessTokens([Self.entry("a", [.read])]), limit: limit)
        for _ in 0..<AttemptLimit.maximumFailures {
            #expect(throws: AccessGate.Refusal.invalidToken) {
                try gate.identity(Self.question("b", from: "192.0.2.1"), needs: .read)
            }
        }
        #expect(throws: AccessGate.Refusal.tooManyAttempts(.seconds(60))) {
            try gate.identity(Self.question("a", from: "192.0.2.1"), needs: .read)
        }
        #expect(try gate.identity(Self.question("a", from: "192.0.2.2"), needs: .read).name == "a")
        clock.advance(by: .seconds(60))
        #expect(try gate.identity(Self.question("a", from: "192.0.2.1"), needs: .read).name == "a")
    }

    /// Requests without a token, and those of a valid one with too few scopes, are no attempts.
    @Test func onlyInvalidTokensCount() {
        let gate = AccessGate(AccessTokens([Self.entry("a", [.read])]))
        for _ in 0...AttemptLimit.maximumFailures {
            #expect(throws: AccessGate.Refusal.noToken) {
                try gate.identity(AccessGate.Question(authorization: ["Basic YTpi"]), needs: .read)
            }
            #expect(throws: AccessGate.Refusal.severalTokens) {
                try gate.identity(AccessGate.Question(authorization: ["Bearer a", "Bearer a"]), needs: .read)
            }
            #expect(throws: AccessGate.Refusal.insufficientScope(of: "a", lacks: .admin)) {
                try gate.identity(Self.question("a"), needs: .admin)
            }
        }
        #expect(throws: AccessGate.Refusal.invalidToken) {
            try gate.identity(AccessGate.Question(authorization: ["Bearer ü"]), needs: .read)
        }
    }

    @Test func anOpenServerAsksForNoToken() throws {
        for scope in AccessScope.allCases {
            #expect(try AccessGate.open.identity(AccessGate.Question(), needs: scope) == .open)
            #expect(try AccessGate.open.identity(Self.question("wrong"), needs: scope) == .open)
        }
        let foreign = AccessGate.Question(authority: "localhost:8090", origin: "https://example.com")
        #expect(throws: AccessGate.Refusal.otherSite) { try AccessGate.open.identity(foreign, needs: .read) }
    }
}
