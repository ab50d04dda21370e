internal import Hummingbird
internal import HummingbirdCore
internal import MegatonCore
internal import NIOCore

/// The description of all routes for programs, in the format of OpenAPI 3.1.
enum APIDocument {
    static let path = "/api/v1/openapi.json"

    static let json = PackageResources.openapi_json

    static func response() -> Response {
        APIResponse.json(bytes: ByteBuffer(bytes: json))
    }
}

/// The end of each request for which there is no route: a 404 that names the document with all routes.
///
/// It is a middleware behind that of tokens, and not a route `**`: a route would answer one method only, and a path
/// that has another method would show itself to a client without a token.
struct UnknownRoute: RouterMiddleware {
    typealias Context = ServerContext

    func handle(
        _ request: Request,
        context: ServerContext,
        next: (Request, ServerContext) async throws -> Response
    ) async throws -> Response {
        let path = FieldProblem.quoted(request.uri.path)
        throw APIError(
            .notFound,
            "There is no route \(request.method.rawValue) \(path). GET \(APIDocument.path) has all routes."
        )
    }
}
