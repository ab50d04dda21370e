internal import Hummingbird
internal import HummingbirdCore

/// Answers requests for images that have another method than GET and HEAD with 405.
///
/// It is a middleware behind the routes of images and in front of that of tokens, which would ask for a token: clients
/// of images have none. The answer has no path, as the source in it may have secrets.
struct ImageMethods: RouterMiddleware {
    typealias Context = ServerContext

    /// The beginning of the paths of images.
    let prefix: String

    func handle(
        _ request: Request,
        context: ServerContext,
        next: (Request, ServerContext) async throws -> Response
    ) async throws -> Response {
        let isAllowed = request.method == .get || request.method == .head
        guard !isAllowed, request.uri.path.hasPrefix(prefix + "/") else { return try await next(request, context) }
        throw APIError(
            .methodNotAllowed,
            "Images have no method \(request.method.rawValue); they have GET, HEAD.",
            headers: [.allow: "GET, HEAD"]
        )
    }
}
