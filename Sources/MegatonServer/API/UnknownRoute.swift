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

    /// The route of images.
    struct Images: Sendable {
        /// The beginning of all paths of images.
        let prefix: String
        /// Whether the server has the route.
        let areServed: Bool

        /// Advice about a path that was meant for images; nil about others.
        ///
        /// imgproxy, whose clients make such paths, serves images at the root of its server.
        func hint(_ path: String) -> String? {
            let segments = path.split(separator: "/")
            // A signature, options as in `rs:fit:300:200`, and a source.
            let isElsewhere =
                segments.count > 2 && segments[0] != "api"
                && segments.dropFirst().contains { $0 == "plain" || $0.contains(":") }
            guard path.hasPrefix("\(prefix)/") || isElsewhere else { return nil }
            return areServed
                ? "Image URLs are \(prefix)/{signature}/{options}/{source}."
                : "This server serves no images: start it with the variables MEGATON_KEY and MEGATON_SALT."
        }
    }

    private let routes: [Route]
    private let images: Images

    /// - Parameters:
    ///   - router: has all of its routes.
    ///   - images: whether one of them is that of images, and where that is.
    init(besides router: Router<ServerContext>, _ images: Images) {
        self.images = images
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
            let hint = images.hint(path) ?? "GET \(APIDocument.path) has all routes."
            throw APIError(.notFound, "There is no route \(method) \(shown). \(hint)")
        }
        throw APIError(
            .methodNotAllowed,
            "\(shown) has no method \(method); it has \(allowed).",
            headers: [.allow: allowed]
        )
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
