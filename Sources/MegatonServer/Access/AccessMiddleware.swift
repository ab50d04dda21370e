package import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import NIOCore

/// Context of a request whose client may have a token.
package protocol AccessRequestContext: RemoteAddressRequestContext {
    /// Holder of the request's token: set by ``AccessMiddleware`` before the handler runs, for its rules and logs.
    var identity: AccessIdentity? { get set }
    /// Whether that token is still valid, with the same scopes; nil before the handler runs.
    var isStillValid: (@Sendable () -> Bool)? { get set }
}

extension AccessRequestContext {
    /// The client, as far as ``AttemptLimit`` separates it from others. A proxy is one client with all behind it:
    /// headers that name them can be forged.
    fileprivate var client: AttemptLimit.Client { AttemptLimit.Client(remoteAddress?.ipAddress) }
}

/// Lets the requests of a group of routes pass that ``AccessGate`` allows, and answers the others.
///
/// Routes that are added to the group later, and no others, are behind it: a group that must not show which paths it
/// has needs a last route `**`.
package struct AccessMiddleware<Context: AccessRequestContext>: RouterMiddleware {
    private let gate: AccessGate
    private let scope: AccessScope?

    /// - Parameter scope: nil if every valid token will do.
    package init(_ gate: AccessGate, needs scope: AccessScope?) {
        self.gate = gate
        self.scope = scope
    }

    package func handle(
        _ request: Request,
        context: Context,
        next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        let question = AccessGate.Question(
            authorization: request.headers[values: .authorization],
            authority: request.head.authority,
            origin: request.headers[.origin],
            client: context.client
        )
        let identity: AccessIdentity
        do {
            identity = try gate.identity(question, needs: scope)
        } catch {
            context.logger.debug("request refused", metadata: ["reason": "\(error)"])
            if error == .invalidToken { report(question.client, context) }
            return try response(to: error)
        }
        var context = context
        context.identity = identity
        context.isStillValid = gate.validity(of: identity, question)
        context.logger[metadataKey: "token"] = "\(identity.name)"
        return try await next(request, context)
    }

    /// Logs that a client has sent an invalid token, at most once a minute: the operator sees attempts to guess one,
    /// and which client has an old one. The line has no part of the token.
    private func report(_ client: AttemptLimit.Client, _ context: Context) {
        guard gate.takeReport(about: client) else { return }
        context.logger.warning(
            """
            a client has sent a token that is not valid; after \(AttemptLimit.maximumFailures) within a minute its \
            further requests with a token are refused until the minute is over
            """,
            metadata: ["client": "\(context.remoteAddress?.ipAddress ?? "unknown")"]
        )
    }

    private func response(to refusal: AccessGate.Refusal) throws -> Response {
        switch refusal {
        case .noToken:
            try ProblemDocument(
                .unauthorized,
                "The request has no token; send it in the header Authorization, as in \"Authorization: Bearer TOKEN\"."
            ).response([.wwwAuthenticate: Self.challenge()])
        case .invalidToken:
            try ProblemDocument(
                .unauthorized,
                "The token is not valid: it is not one of the server's, or has expired. Ask its operator for another."
            ).response([.wwwAuthenticate: Self.challenge(#"error="invalid_token""#)])
        case .severalTokens:
            try ProblemDocument(
                .badRequest,
                "The request has more than one header Authorization; send one."
            ).response()
        case .insufficientScope(_, let needed):
            try ProblemDocument(
                .forbidden,
                "The token lacks the scope \(needed.rawValue); use another, or ask the server's operator for the scope."
            ).response([
                .wwwAuthenticate: Self.challenge(#"error="insufficient_scope", scope="\#(needed.rawValue)""#)
            ])
        case .tooManyAttempts(let delay):
            // Rounded up: a client that waits so long is not refused again.
            try ProblemDocument(
                .tooManyRequests,
                "This address has sent too many tokens that are not valid; try again after the time of Retry-After."
            ).response([
                .retryAfter: "\(delay.components.seconds + (delay.components.attoseconds > 0 ? 1 : 0))"
            ])
        case .otherSite:
            try ProblemDocument(
                .forbidden,
                "This server asks for no token, and so refuses requests from pages of other sites and those whose Host "
                    + "is not localhost or a loopback address."
            ).response()
        }
    }

    /// RFC 6750 section 3: at least one parameter follows the scheme.
    private static func challenge(_ parameters: String? = nil) -> String {
        #"Bearer realm="megaton""# + (parameters.map { ", \($0)" } ?? "")
    }
}
