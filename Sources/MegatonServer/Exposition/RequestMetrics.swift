internal import CoreMetrics
internal import Hummingbird
internal import HummingbirdCore
internal import MegatonCore

/// Counts the requests to ``HTTPServer`` by their routes, never by their paths: clients can make up any number of
/// those.
///
/// It is the outermost middleware, so that refusals count too.
struct RequestMetrics: RouterMiddleware {
    typealias Context = ServerContext

    static let requests = MetricDescription(
        "megaton_http_requests_total",
        .counter,
        "Requests to the HTTP server by route (other for paths without one), method and status of the response",
        labels: ["route", "method", "status"]
    )
    static let seconds = MetricDescription(
        "megaton_http_request_seconds",
        .histogram,
        "Time from the head of a request to that of its response, which includes the body of the request",
        labels: ["route"],
        buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
    )

    static let descriptions = [requests, seconds]

    /// Label of a path without a route, and of a method that no route has.
    private static let other = "other"
    private static let methods: Set = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]

    private let factory: any MetricsFactory

    /// - Parameter registry: counts the metrics of the process.
    init(_ registry: PrometheusRegistry) { factory = registry }

    /// - Parameter status: that of the response, or a word if there is none.
    private func count(_ route: String?, _ method: String, status: String, since start: ContinuousClock.Instant) {
        // The framework has words for the route of a path that it does not know.
        let route = route.flatMap { $0.hasPrefix("/") ? $0 : nil } ?? Self.other
        let method = Self.methods.contains(method) ? method : Self.other
        let labels = [("route", route), ("method", method), ("status", status)]
        Counter(label: Self.requests.name, dimensions: labels, factory: factory).increment()
        Timer(label: Self.seconds.name, dimensions: [("route", route)], factory: factory)
            .recordSeconds(start.duration(to: .now).inSeconds)
    }

    func handle(
        _ request: Request,
        context: ServerContext,
        next: (Request, ServerContext) async throws -> Response
    ) async throws -> Response {
        let (start, method) = (ContinuousClock.now, request.method.rawValue)
        do {
            let response = try await next(request, context)
            count(context.endpointPath, method, status: "\(response.status.code)", since: start)
            return response
        } catch {
            // Other errors than those of the framework have become responses by now: the server ends.
            let status = (error as? any HTTPResponseError).map { "\($0.status.code)" } ?? "cancelled"
            count(context.endpointPath, method, status: status, since: start)
            throw error
        }
    }
}
