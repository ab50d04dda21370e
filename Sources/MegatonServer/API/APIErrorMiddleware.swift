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
            return try await next(request, context)
        } catch let error as CancellationError {
            // The server ends, and its connections with it.
            throw error
        } catch {
            let problem = APIError(error)
            if problem.status.code >= 500 {
                context.logger.warning(
                    "request failed",
                    metadata: [
                        "path": "\(request.uri.path)", "status": "\(problem.status.code)", "error": "\(error)",
                    ]
                )
            }
            return try problem.response()
        }
    }
}
