import Foundation
import MegatonTestSupport
import Testing

/// The board for Grafana shows values: its queries run on a real Prometheus that scrapes a real cluster.
@Suite(.timeLimit(.minutes(3))) struct BoardTests {
    /// An answer of Prometheus to a query.
    private struct Answer: Decodable {
        struct Content: Decodable {
            /// A series with its value, of which only the number matters.
            struct Series: Decodable {}

            let result: [Series]
        }

        let status: String
        let data: Content?
        let error: String?
    }

    /// Range of rates: it must hold two scrapes, which come every second.
    private static let range = "20s"
    /// Time within which each query must have values.
    private static let limit: Duration = .seconds(60)

    private static func hasValues(_ query: String, _ port: Int) async throws -> Bool {
        let curl = try ProgramUnderTest(
            program: "/usr/bin/curl",
            arguments: [
                "--silent", "--max-time", "20", "--get", "--data-urlencode", "query=\(query)",
                "http://127.0.0.1:\(port)/api/v1/query",
            ]
        )
        let output = await curl.ending().output
        // Prometheus does not listen at first.
        guard let answer = try? JSONDecoder().decode(Answer.self, from: Data(output.utf8)) else { return false }
        #expect(answer.status == "success", "\(query): \(answer.error ?? output)")
        return answer.data?.result.isEmpty == false
    }

    /// Asks until each query has values. Each request takes a process, so this is no busy loop.
    ///
    /// - Returns: the queries that have none within the limit.
    private static func queriesWithoutValues(of queries: [String], _ port: Int) async throws -> [String] {
        let deadline = ContinuousClock.now + limit
        var empty = queries
        while !empty.isEmpty, ContinuousClock.now < deadline {
            var left: [String] = []
            for query in empty {
                if try await !hasValues(query, port) { left.append(query) }
            }
            empty = left
        }
        return empty
    }

    private static func prometheus(
        scraping targets: [Int],
        at port: Int,
        in directory: TestDirectory
    ) throws -> ProgramUnderTest {
        let addresses = targets.map { "\"127.0.0.1:\($0)\"" }.joined(separator: ", ")
        let configuration = """
            global: {scrape_interval: 1s, scrape_timeout: 1s}
            scrape_configs:
              - job_name: megaton
                static_configs: [{targets: [\(addresses)]}]

            """
        let file = try directory.write(Data(configuration.utf8), to: "prometheus.yml")
        return try ProgramUnderTest(
            program: "/usr/bin/prometheus",
            arguments: [
                "--config.file=\(file)", "--storage.tsdb.path=\(directory.path)/prometheus",
                "--web.listen-address=127.0.0.1:\(port)", "--log.level=warn",
            ]
        )
    }

    @Test func eachQueryHasValues() async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let image = TestImage.quarters(width: 64, height: 64)
        let queries = try GrafanaBoard.read().queries(range: Self.range)
        let ofFaults = queries.filter { $0.contains("megaton_redis_failures_total") }
        #expect(queries.count >= 20 && ofFaults.count == 1)
        try await OriginServer.run(
            answer: { $0.hasPrefix("/good") ? .image(image) : .init(status: $0.hasPrefix("/busy") ? 503 : 404) }
        ) { origin in
            try await RedisServerProcess.run { (redis) async throws in
                let ports = try (0..<4).map { _ in try FreePort.find() }
                let cluster = [
                    try ProgramUnderTest.megaton([
                        "coordinator", "--redis", redis.url, "--health", "127.0.0.1:\(ports[0])",
                    ]),
                    try ProgramUnderTest.megaton([
                        "worker", "--allow-private", "--redis", redis.url, "--health", "127.0.0.1:\(ports[1])",
                    ]),
                ]
                let server = try await ServeTests.Server([
                    "--redis", redis.url, "--open", "--metrics-listen", "127.0.0.1:\(ports[2])",
                ])
                try await server.wait(for: 200, at: "/ready")
                let prometheus = try Self.prometheus(scraping: Array(ports[..<3]), at: ports[3], in: directory)
                // Rendered, from the cache, failed for good, and retried.
                for (index, path) in ["/good.png", "/good.png", "/missing.png", "/busy.png"].enumerated() {
                    let submit = try ProgramUnderTest.megaton([
                        "submit", "--redis", redis.url, "--batch", "b\(index)", "--size", "32x32", "--attempts", "2",
                        "--wait", origin.url(path).absoluteString,
                    ])
                    #expect(await submit.ending().code == (path == "/good.png" ? 0 : 2), "\(path): \(submit.errors)")
                }
                let healthy = queries.filter { !ofFaults.contains($0) }
                #expect(try await Self.queriesWithoutValues(of: healthy, ports[3]) == [])
                await redis.crash()
                #expect(try await Self.queriesWithoutValues(of: ofFaults, ports[3]) == [])
                prometheus.send(SIGTERM)
                #expect(await prometheus.ending().code == 0, "\(prometheus.errors)")
                // Without their Redis they end with another code.
                for process in cluster + [server.process] { process.send(SIGTERM) }
                for process in cluster + [server.process] { _ = await process.ending() }
            }
        }
    }
}
