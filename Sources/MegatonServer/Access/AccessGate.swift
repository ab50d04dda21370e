package import Foundation
internal import MegatonCore

/// Decides whether a request may use a part of the server that needs a scope.
package struct AccessGate: Sendable {
    /// The parts of a request on which the decision depends. The query is none of them: it appears in logs and in the
    /// history of browsers.
    struct Question: Sendable {
        /// Values of all headers `Authorization`.
        var authorization: [String] = []
        /// The header `Host`.
        var authority: String?
        /// The header `Origin`.
        var origin: String?
        var client = AttemptLimit.Client(nil)
    }

    /// The reason for which a request is refused.
    enum Refusal: Error, Hashable {
        /// The request has no token.
        case noToken
        /// The request has a token that is not valid. Wrong and expired ones look the same.
        case invalidToken
        /// The request has several tokens.
        case severalTokens
        /// The token is valid, but not for this.
        case insufficientScope(of: String, lacks: AccessScope)
        /// The client has failed too often; the time until its next attempt.
        case tooManyAttempts(Duration)
        /// The page of another site has sent the request to a server without tokens.
        case otherSite
    }

    private enum Mode: Sendable {
        case open
        case tokens(AccessTokens, AttemptLimit)
    }

    private let mode: Mode
    private let date: @Sendable () -> Date

    /// Every request of this machine passes with all scopes. For listeners of which ``LoopbackRule`` says that no other
    /// machine reaches them.
    package static let open = AccessGate(mode: .open, date: { Date() })

    /// A token of the request must have the scope.
    ///
    /// - Parameter date: the time for the expiry of tokens.
    package init(
        _ tokens: AccessTokens,
        limit: AttemptLimit = AttemptLimit(),
        date: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.init(mode: .tokens(tokens, limit), date: date)
    }

    private init(mode: Mode, date: @escaping @Sendable () -> Date) {
        self.mode = mode
        self.date = date
    }

    /// The holder of the request's token.
    ///
    /// - Parameter scope: nil if every valid token will do.
    func identity(_ question: Question, needs scope: AccessScope?) throws(Refusal) -> AccessIdentity {
        guard case .tokens(let tokens, let limit) = mode else {
            let isLocal = LoopbackRule.isLocal(authority: question.authority, origin: question.origin)
            if !isLocal { throw .otherSite }
            return .open
        }
        let credential = BearerCredential(question.authorization)
        // Neither can be a guess, so that they do not count as attempts.
        if credential == .absent { throw .noToken }
        if credential == .ambiguous { throw .severalTokens }
        if let delay = limit.delay(of: question.client) { throw .tooManyAttempts(delay) }
        guard case .token(let token) = credential, let identity = tokens.identity(of: token, at: date()) else {
            limit.fail(question.client)
            throw .invalidToken
        }
        if let scope, !identity.allows(scope) { throw .insufficientScope(of: identity.name, lacks: scope) }
        return identity
    }

    /// Whether the holder of a request's token still has it, for a response that lasts. Counts no attempt.
    func validity(of identity: AccessIdentity, _ question: Question) -> @Sendable () -> Bool {
        guard case .tokens(let tokens, _) = mode, case .token(let token) = BearerCredential(question.authorization)
        else { return { true } }
        let (isValid, date) = (tokens.validity(of: token, as: identity), date)
        return { isValid(date()) }
    }

    /// Whether the log should have a line about the invalid tokens of a client; see ``AttemptLimit``.
    func takeReport(about client: AttemptLimit.Client) -> Bool {
        guard case .tokens(_, let limit) = mode else { return false }
        return limit.takeReport(about: client)
    }
}
