internal import Hummingbird
internal import HummingbirdCore
internal import MegatonCluster
internal import MegatonRedis

extension HTTPServer {
    /// All routes, each behind the scope that it needs.
    var router: Router<ServerContext> {
        let router = Router(context: ServerContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: RequestMetrics(registry))
        router.add(middleware: APIErrorMiddleware<ServerContext>())
        router.get("/live") { _, _ in Listener.text("live\n") }
        router.get("/ready") { _, _ in
            await readiness.isReady()
                ? Listener.text("ready\n")
                : Listener.text("Redis does not answer\n", .serviceUnavailable)
        }
        DashboardPage.add(to: router)
        router.group().add(middleware: AccessMiddleware(gate, needs: .read)).get("/metrics") { _, _ in
            Listener.text(PrometheusText.encode(await families()), type: PrometheusText.contentType)
        }
        let (read, submit, admin) = (group(.read, of: router), group(.submit, of: router), group(.admin, of: router))
        read.get("openapi.json") { (request, _) async throws -> Response in
            _ = try QueryArguments(request)
            return APIDocument.response()
        }
        JobRoutes(cluster: cluster).add(to: read, submit: submit, admin: admin)
        BatchRoutes(cluster: cluster).add(to: read, submit: submit, admin: admin)
        OutcomeRoutes(cluster: cluster).add(to: read, submit: submit, admin: admin)
        QueueRoutes(cluster: cluster).add(to: read, submit: submit, admin: admin)
        HostRoutes(cluster: cluster).add(to: read, submit: submit, admin: admin)
        DeadRoutes(cluster: cluster).add(to: read, submit: submit, admin: admin)
        CacheRoutes(cluster: cluster).add(to: read, submit: submit, admin: admin)
        // Their signatures take the place of tokens.
        images?.routes.add(to: router)
        DashboardRoutes(dashboard).add(to: read)
        // The router puts middlewares in front of what is added behind them: of all other paths, here. Without a token
        // the answer is the same for paths that exist and for others.
        router.add(middleware: AccessMiddleware(gate, needs: nil))
        let imageRoute = UnknownRoute.Images(prefix: ImageRoutes.prefix, areServed: images != nil)
        router.add(middleware: UnknownRoute(besides: router, imageRoute))
        return router
    }

    private func group(_ scope: AccessScope, of router: Router<ServerContext>) -> RouterGroup<ServerContext> {
        router.group("/api/v1").add(middleware: AccessMiddleware(gate, needs: scope))
    }
}
