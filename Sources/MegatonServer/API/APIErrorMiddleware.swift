internal import Hummingbird
internal import HummingbirdCore
internal import Logging

/// Answers requests whose handler has thrown an error with a `ProblemDocument`.
///
/// Faults of the server are logged: the client sees only a part of them.
struct APIErrorMiddleware<Context: RequestContext>: RouterMiddleware {
    func handle(
        _ request: Request,
        context: Context,
        next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        do {
            // The router takes several slashes for one: a request without a name would reach another route. The path of
            // an image has the URL of its source.
            if request.uri.path.hasPrefix("/api/"), request.uri.path.contains("//") {
                throw APIError(.badRequest, "The path has two slashes in a row; between them a name is missing.")
            }
            return try await next(request, context)
        } catch let error as CancellationError {
            // The server ends, and its connections with it.
            throw error
        } catch {
            let problem = APIError(error, readsOnly: [.get, .head].contains(request.method))
            if problem.status.code >= 500 {
                let reason = (error as? APIError)?.detail ?? "\(error)"
                context.logger.warning(
                    "request failed",
                    metadata: [
                        "path": "\(request.uri.path)", "status": "\(problem.status.code)", "error": "\(reason)",
                    ]
                )
            }
            return try problem.response()
        }
    }
}
