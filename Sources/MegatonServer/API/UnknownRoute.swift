internal import Hummingbird
internal import HummingbirdCore
internal import MegatonCore

/// The end of each request for which there is no route: 405 if its path has other methods, otherwise a 404 that names
/// the document with all routes.
///
/// It is a middleware behind that of tokens, and not a route `**`: a route would answer one method only, and a path
/// that has another method would show itself to a client without a token.
struct UnknownRoute: RouterMiddleware {
    typealias Context = ServerContext

    private struct Route: Sendable {
        let path: RouterPath
        let method: String
    }

    private let routes: [Route]
    private let hasImages: Bool

    /// - Parameters:
    ///   - router: has all of its routes.
    ///   - hasImages: whether one of them is that of images.
    init(besides router: Router<ServerContext>, hasImages: Bool) {
        self.hasImages = hasImages
        routes = router.routes.map { Route(path: $0.path, method: $0.method.rawValue) }
    }

    func handle(
        _ request: Request,
        context: ServerContext,
        next: (Request, ServerContext) async throws -> Response
    ) async throws -> Response {
        let path = request.uri.path
        let (method, shown) = (request.method.rawValue, FieldProblem.quoted(path))
        let allowed = methods(of: path).joined(separator: ", ")
        if allowed.isEmpty {
            let hint = Self.hint(path, hasImages: hasImages) ?? "GET \(APIDocument.path) has all routes."
            throw APIError(.notFound, "There is no route \(method) \(shown). \(hint)")
        }
        throw APIError(
            .methodNotAllowed,
            "\(shown) has no method \(method); it has \(allowed).",
            headers: [.allow: allowed]
        )
    }

    /// Advice about a path that was meant for images; nil about others.
    ///
    /// imgproxy, whose clients make such paths, serves images at the root of its server.
    static func hint(_ path: String, hasImages: Bool) -> String? {
        let segments = path.split(separator: "/")
        let isImage = path.hasPrefix("\(ImageRoutes.prefix)/")
        // A signature, options as in `rs:fit:300:200`, and a source.
        let isImageElsewhere =
            segments.count > 2 && segments[0] != "api"
            && segments.dropFirst().contains { $0 == "plain" || $0.contains(":") }
        guard isImage || isImageElsewhere else { return nil }
        guard hasImages else {
            return "This server serves no images: start it with the variables MEGATON_KEY and MEGATON_SALT."
        }
        return "Image URLs are \(ImageRoutes.prefix)/{signature}/{options}/{source}."
    }

    private func methods(of path: String) -> [String] {
        let segments = path.split(separator: "/")
        let matching = routes.filter { route in
            route.path.count == segments.count && zip(route.path, segments).allSatisfy { $0 ~= $1 }
        }
        var methods = Set(matching.map(\.method))
        // The router adds it when it is built.
        if methods.contains("GET") { methods.insert("HEAD") }
        return methods.sorted()
    }
}
