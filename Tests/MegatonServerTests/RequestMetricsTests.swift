import Testing

@testable import MegatonServer

/// Counts of requests, at a real server.
@Suite(.timeLimit(.minutes(2))) struct RequestMetricsTests {
    @Test func requestsCountByRouteAndNotByPath() async throws {
        let registry = PrometheusRegistry(RequestMetrics.descriptions)
        try await APIServer.run(counting: registry) { (server) async throws in
            #expect(try await server.submit([#"{"source":"data:,a"}"#], "name=spring").status == 201)
            #expect(try await server.ask("batches/spring").status == 200)
            for name in ["winter", "autumn"] { #expect(try await server.ask("batches/\(name)").status == 404) }
            for path in ["nowhere/1", "nowhere/2"] { #expect(try await server.ask(path).status == 404) }
            #expect(try await server.ask("nowhere", ["--request", "PROPFIND"]).status == 404)
        }
        let text = PrometheusText.encode(registry.snapshot())
        let requests = text.split(separator: "\n").filter { $0.hasPrefix("megaton_http_requests_total{") }
        #expect(
            Set(requests) == [
                #"megaton_http_requests_total{route="/api/v1/batches",method="POST",status="201"} 1"#,
                #"megaton_http_requests_total{route="/api/v1/batches/{name}",method="GET",status="200"} 1"#,
                #"megaton_http_requests_total{route="/api/v1/batches/{name}",method="GET",status="404"} 2"#,
                #"megaton_http_requests_total{route="other",method="GET",status="404"} 2"#,
                #"megaton_http_requests_total{route="other",method="other",status="404"} 1"#,
            ],
            "\(requests)"
        )
        #expect(text.contains("\n" + #"megaton_http_request_seconds_count{route="/api/v1/batches/{name}"} 3"# + "\n"))
        #expect(!text.contains("spring") && !text.contains("nowhere"))
    }
}
